"""Models of the kinds that people train, sharded as people shard them: results and steps are torch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import GPT, LSTM, ConvNet, MoE, ViT
from tests.frontends.torch.plans import PLANS

F = torch.nn.functional
MESH = sw.Mesh(data=2, model=4)


def entropy(module: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(module(x).flatten(0, -2), y.flatten())


def classes() -> Any:
    return torch.randint(0, 8, (8,))


def tokens() -> Any:
    return torch.randint(0, 64, (8, 16))


def images() -> Any:
    return torch.randn(8, 3, 16, 16)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {
    "gpt": (GPT, tokens, tokens),
    "convolution": (ConvNet, images, classes),
    "vit": (ViT, images, classes),
    "lstm": (LSTM, lambda: torch.randn(8, 6, 8), classes),
    "moe": (MoE, lambda: torch.randn(8, 16), classes),
}


NAMES = [pytest.param(name, marks=pytest.mark.long if name in ("vit", "lstm") else ()) for name in MODELS]
PLANNED = [
    pytest.param(plan, marks=() if plan == "both" else pytest.mark.long) for plan in PLANS
]  # the other two are parts of it


@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_torch(name: str, plan: str) -> None:
    torch.manual_seed(2)
    make, inputs, _ = MODELS[name]
    module = make().eval()
    program = sw.from_torch(module, (inputs(),))
    x = inputs()
    step = program.shard(MESH, PLANS[plan](program)).partition().compile(trial=False)
    torch.testing.assert_close(step(x), module(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("name", NAMES)
def test_training_steps_are_those_of_torch(name: str, plan: str) -> None:
    torch.manual_seed(3)
    make, inputs, labels = MODELS[name]
    module = make()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    program = sw.from_torch(module, (inputs(), labels()), train=entropy, optimizer=optimizer)
    own = copy.deepcopy(module)
    expected = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9)
    step: Any = program.shard(MESH, PLANS[plan](program)).partition().compile(trial=False)
    for _ in range(2):
        x, y = inputs(), labels()
        expected.zero_grad()
        loss = entropy(own, x, y)
        loss.backward()
        expected.step()
        torch.testing.assert_close(step(x, y), loss.detach(), rtol=1e-4, atol=1e-5)
    after = step.state_dict()
    for key, tensor in own.state_dict().items():
        torch.testing.assert_close(after[key], tensor, rtol=1e-4, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")


def test_what_is_tied_is_one_argument_with_one_gradient() -> None:
    program = sw.from_torch(GPT(), (tokens(), tokens()), train=entropy)
    names = [*program.arguments, *program.results]
    assert "head.weight" not in names
    assert "grad.head.weight" not in names
    assert {"wte.weight", "grad.wte.weight", "blocks.0.attn.qkv.weight"} <= set(names)
    step: Any = program.shard(MESH, {"wte.weight": "model,-"}).partition().compile(trial=False)
    assert torch.equal(step.state_dict()["head.weight"], step.state_dict()["wte.weight"])


def test_buffers_that_training_writes_are_results() -> None:
    module = ConvNet()
    program = sw.from_torch(
        module, (images(), classes()), train=entropy, optimizer=torch.optim.SGD(module.parameters())
    )
    assert {"bn1.running_mean", "bn1.num_batches_tracked"} <= program.results.keys() & program.arguments.keys()
    assert "bn1.running_mean" not in sw.from_torch(ConvNet().eval(), (images(),)).results


def test_gradients_stand_at_the_lines_of_what_they_are_of() -> None:
    program = sw.from_torch(GPT(), (tokens(), tokens()), train=entropy)
    graph = program.graph
    places = [str(graph.locations[op.location]) for op in graph.walk() if op.name == "stablehlo.dot_general"]
    assert len(places) == 3 * (2 * 6 + 1)  # two of the gradient for each of the model
    assert all("tests/frontends/torch/models.py:" in place for place in places)


def test_a_sharded_training_step_verifies() -> None:
    module = GPT()
    optimizer = torch.optim.AdamW(module.parameters())
    program = sw.from_torch(module, (tokens(), tokens()), train=entropy, optimizer=optimizer)
    spmd = program.shard(MESH, PLANS["both"](program)).partition()
    assert spmd.verify().ok
    assert {"arith.constant", "stablehlo.dynamic_iota"}.isdisjoint(op.name for op in program.graph.walk())
