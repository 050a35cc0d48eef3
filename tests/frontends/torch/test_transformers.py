"""Architectures of `transformers`, made from their configs with random small weights: forward and training step.

docs/pytorch.md has the table of these.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.plans import PLANS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    T: Any = pytest.importorskip("transformers", reason="no transformers here: pip install transformers")

PAGE = (Path(__file__).parents[3] / "docs" / "pytorch.md").read_text()
MESH = sw.Mesh(data=2, model=4)
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS = {"num_key_value_heads": 2}


def model(name: str, config: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(T, name)(getattr(T, config)(**{**SIZES, **options}))


MODELS: dict[str, Callable[[], Any]] = {
    "llama": model("LlamaForCausalLM", "LlamaConfig", **HEADS),
    "mistral": model("MistralForCausalLM", "MistralConfig", sliding_window=8, **HEADS),
    "qwen2": model("Qwen2ForCausalLM", "Qwen2Config", **HEADS),
    "qwen3": model("Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **HEADS),
    "gemma": model("GemmaForCausalLM", "GemmaConfig", head_dim=8, **HEADS),
    "gemma2": model("Gemma2ForCausalLM", "Gemma2Config", head_dim=8, **HEADS),
    "phi3": model("Phi3ForCausalLM", "Phi3Config", **HEADS),
    "mixtral": model(
        "MixtralForCausalLM", "MixtralConfig", num_local_experts=4, experts_implementation="batched_mm", **HEADS
    ),
    "gpt2": model("GPT2LMHeadModel", "GPT2Config", n_embd=32, n_layer=2, n_head=4, n_positions=32),
    "gpt_neox": model("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "opt": model("OPTForCausalLM", "OPTConfig", ffn_dim=64, word_embed_proj_dim=32),
    "bert": model("BertForMaskedLM", "BertConfig"),
    "roberta": model("RobertaForMaskedLM", "RobertaConfig"),
    "distilbert": model("DistilBertForMaskedLM", "DistilBertConfig", dim=32, hidden_dim=64, n_layers=2, n_heads=4),
    "t5": model(
        "T5ForConditionalGeneration", "T5Config", d_model=32, d_kv=8, d_ff=64, num_layers=2, decoder_start_token_id=0
    ),
    "mamba": model("MambaForCausalLM", "MambaConfig", state_size=8, num_hidden_layers=1),
    "vit": model("ViTForImageClassification", "ViTConfig", image_size=16, patch_size=4),
}
SHORT = ("llama", "bert")
"""Those that are tried each time; each takes half a minute."""


def call(name: str) -> tuple[dict[str, Any], Any]:
    """Inputs by keyword, and labels."""

    def tokens() -> Any:
        return torch.randint(3, 64, (4, 8 if name == "mamba" else 16))

    if name == "vit":
        return {"pixel_values": torch.randn(4, 3, 16, 16)}, torch.randint(0, 2, (4,))
    if name == "t5":
        return {"input_ids": tokens(), "decoder_input_ids": tokens()}, tokens()
    return {"input_ids": tokens()}, tokens()


def made(name: str) -> Any:
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = MODELS[name]().eval()
    if hasattr(module.config, "use_cache"):
        module.config.use_cache = False
    return module


def loss(module: Any, **inputs: Any) -> Any:
    return module(**inputs).loss


class Logits(torch.nn.Module):  # type: ignore[misc]
    """A model without what else it returns."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, **inputs: Any) -> Any:
        return self.module(**inputs).logits


NAMES = [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in MODELS]


@pytest.mark.filterwarnings("ignore")  # those of transformers
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_torch(name: str) -> None:
    module = Logits(made(name))
    inputs, _ = call(name)
    program = sw.from_torch(module, (), inputs)
    step = program.shard(MESH, PLANS["both"](program)).partition().compile(trial=False)
    torch.testing.assert_close(step(**inputs), module(**inputs).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # those of transformers
@pytest.mark.parametrize("name", NAMES)
def test_training_steps_are_those_of_torch(name: str) -> None:
    module = made(name)
    own = copy.deepcopy(module)
    inputs, labels = call(name)
    optimizer, expected = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (module, own))
    program = sw.from_torch(module, (), {**inputs, "labels": labels}, train=loss, optimizer=optimizer)
    step: Any = program.shard(MESH, PLANS["both"](program)).partition().compile(trial=False)
    value = loss(own, **inputs, labels=labels)
    value.backward()
    expected.step()
    torch.testing.assert_close(step(**inputs, labels=labels), value.detach(), rtol=1e-4, atol=1e-5)
    after = step.state_dict()
    for key, tensor in own.state_dict().items():
        torch.testing.assert_close(after[key], tensor, rtol=1e-4, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")


def test_the_table_has_all_of_them() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(MODELS)
