"""Live modules laid out over processes by a plan: DTensor computes and trains what one process does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import LSTM, Perceptron
from tests.frontends.torch.plans import fully_sharded, tensor_parallel
from tests.frontends.torch.processes import MODELS, REPEATED, Repeated, Shifted, started

Shardings = dict[str | int, Any]

WEIGHTS = ("attn.qkv", "attn.out", "up", "down")
ROWS: dict[str, Shardings] = {
    "mlp": {"x": "data,-", "up.weight": "data,-", "up.bias": "data", "down.weight": "data,-"},
    "gpt": {
        "tokens": "data,-",
        "wte.weight": "data,-",
        "wpe.weight": "data,-",
        **{f"blocks.{number}.{name}.weight": "data,-" for number in (0, 1) for name in WEIGHTS},
        **{f"blocks.{number}.{name}.weight": "data" for number in (0, 1) for name in ("ln1", "ln2")},
    },
}
COLUMNS: dict[str, Shardings] = {
    "mlp": {"up.weight": "model,-", "up.bias": "model", "down.weight": "-,model"},
    "gpt": {
        "wte.weight": "-,model",
        **{f"blocks.{number}.{name}.weight": "-,model" for number in (0, 1) for name in WEIGHTS if name != "up"},
        **{f"blocks.{number}.up.weight": "model,-" for number in (0, 1)},
        **{f"blocks.{number}.up.bias": "model" for number in (0, 1)},
    },
}


def joined(rows: str, columns: str) -> str:
    """`data,-` and `-,model` are `data,model`; `data,-` and `model,-` are `model,data`."""
    one, other = rows.split(","), columns.split(",")
    if one[0] != "-" and other[0] != "-":
        return ",".join([other[0], one[0]][: len(one)])
    return ",".join(b if a == "-" else a for a, b in zip(one, other, strict=True))


BOTH: dict[str, Shardings] = {
    model: ROWS[model]
    | {name: joined(ROWS[model][name], text) if name in ROWS[model] else text for name, text in columns.items()}
    for model, columns in COLUMNS.items()
}
HEADS: Shardings = {
    **{rf"attn\.[qkv]\.{own}": spec for own, spec in (("weight", "model,-"), ("bias", "model"))},
    **{rf"\.up\.{own}": spec for own, spec in (("weight", "model,-"), ("bias", "model"))},
    r"attn\.out\.weight|down\.weight": "-,model",
}
"""The parallelism of Megatron, over heads and over what is hidden."""


def along_sequence(batch: str) -> Shardings:
    """What stands between blocks is split along the sequence, as Megatron has it, and along the batch."""
    return {
        r"(blocks\.0|ln\d|norm)\.inputs": f"{batch},model,.",
        r"(ln\d|norm|attn|down)\.outputs": f"{batch},model,.",
        r"(attn|up|head)\.inputs": f"{batch},.,.",
    }


PLANS: dict[str, tuple[sw.Mesh, dict[str, Shardings]]] = {
    "rows2": (sw.Mesh(data=2), ROWS),
    "columns2": (sw.Mesh(model=2), COLUMNS),
    "rows4": (sw.Mesh(data=4), ROWS),
    "columns4": (sw.Mesh(model=4), COLUMNS),
    "both4": (sw.Mesh(data=2, model=2), BOTH),
    "tensor2": (sw.Mesh(model=2), {"heads": HEADS}),
    "sequence2": (sw.Mesh(model=2), {"heads": HEADS}),
    "sequence4": (sw.Mesh(model=4), {"heads": HEADS}),
    "other4": (sw.Mesh([("data", 2), ("model", 2)], device_ids=[0, 2, 1, 3]), BOTH),
}
NAMED = [f"{model}-{plan}.toml" for plan, (_, shardings) in PLANS.items() for model in shardings]
OTHERS = [f"{model}-{plan}.toml" for model in ("convolution", "vit", "moe") for plan in ("rows2", "columns4")]
NAMES = NAMED + OTHERS
Planned = dict[str, sw.Plan]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Planned, Path]:
    """Every plan, and the folder with what came out of it in processes."""
    folder = tmp_path_factory.mktemp("processes")
    plans: Planned = {}
    for model, one in MODELS.items():
        program = sw.from_torch(one.make(), (one.inputs(),))
        for name, (mesh, shardings) in PLANS.items():
            if model in shardings:
                modules = along_sequence(".") if name.startswith("sequence") else None
                plans[f"{model}-{name}.toml"] = program.shard(mesh, shardings[model], modules=modules)
        if f"{model}-rows2.toml" in OTHERS:
            plans[f"{model}-rows2.toml"] = program.shard(sw.Mesh(data=2), fully_sharded(program))
            plans[f"{model}-columns4.toml"] = program.shard(sw.Mesh(model=4), tensor_parallel(program))
    for name, plan in plans.items():
        plan.save(folder / name)
    for count in (2, 4):
        own = folder / str(count)
        own.mkdir()
        if count == 2:
            details = {"x": "data,-", "up.weight": "data,-", "shift": "data"}
            sw.from_torch(Shifted(), (torch.randn(7, 16),)).shard("data=2", details).save(own / "details.toml")
            lstm = sw.from_torch(LSTM(), (torch.randn(8, 6, 8),))
            lstm.shard("data=2", fully_sharded(lstm)).save(own / "refused.toml")
            repeated = sw.from_torch(Repeated(), (torch.randn(8, 16),))
            repeated.shard("model=2", {}, modules=REPEATED).save(own / "repeated.toml")
        names = [name for name, plan in plans.items() if plan.mesh.size == count]
        for name in names:
            (own / name).write_text((folder / name).read_text())
        started(count, own, names)
    return plans, folder


@pytest.fixture(scope="module")
def expected() -> Callable[[str, int], dict[str, Any]]:
    """What one process makes of a model, with the parameters of a process."""
    return cache(lambda model, seed: MODELS[model].step(seed))


@pytest.mark.parametrize("name", NAMES)
def test_results_gradients_and_steps_are_those_of_one_process(
    name: str, planned: tuple[Planned, Path], expected: Callable[[str, int], dict[str, Any]]
) -> None:
    plans, folder = planned
    check_same(plans[name], folder / str(plans[name].mesh.size), name, expected)


@pytest.mark.long
def test_a_sequence_is_split_beside_the_batch(tmp_path: Path, expected: Callable[[str, int], dict[str, Any]]) -> None:
    program = sw.from_torch(MODELS["heads"].make(), (MODELS["heads"].inputs(),))
    shardings: Shardings = {"tokens": "data,-", **HEADS}
    plan = program.shard(sw.Mesh(data=2, model=2), shardings, modules=along_sequence("data"))
    plan.save(tmp_path / "heads-both.toml")
    started(4, tmp_path, ["heads-both.toml"])
    check_same(plan, tmp_path, "heads-both.toml", expected)


def check_same(plan: sw.Plan, folder: Path, name: str, expected: Callable[[str, int], dict[str, Any]]) -> None:
    """What processes left in a folder is what one makes."""
    one = expected(name.partition("-")[0], plan.mesh.device_id(0))
    for rank in range(plan.mesh.size):
        found = torch.load(folder / f"{name}.{rank}")
        assert found.keys() == one.keys()
        for key, tensor in one.items():
            if key.startswith("lies "):
                lies = plan.arguments[key.removeprefix("lies ")]
                assert found[key][1] == list(lies.local_shape(tuple(tensor.shape))), key
            else:
                assert_close(found[key], tensor, f"{key} of process {rank}")


LAYERS = 2
COLLECTIVES: dict[str, dict[str, dict[str, int]]] = {
    "heads-tensor2.toml": {
        "forward by the plan": {"all_reduce": 2 * LAYERS},
        "backward by the plan": {"all_reduce": 2 * LAYERS},
        "forward without modules": {"all_reduce": 2 * LAYERS},
        "backward without modules": {"all_reduce": 4 * LAYERS},
    },
    "heads-sequence2.toml": {
        "forward by the plan": {"all_gather_into_tensor": 2 * LAYERS + 1, "reduce_scatter_tensor": 2 * LAYERS},
        "forward without modules": {"all_gather_into_tensor": 9, "reduce_scatter_tensor": 2 * LAYERS},
        "backward by the plan": {
            "all_gather_into_tensor": 2 * LAYERS + 1,
            "reduce_scatter_tensor": 2 * LAYERS,
            "all_reduce": 11,
        },
        "backward without modules": {
            "all_gather_into_tensor": 16,
            "reduce_scatter_tensor": 2 * LAYERS,
            "all_reduce": 17,
        },
    },
}
"""In each layer Megatron sums up, or gathers and scatters, what attention takes and gives, and what the perceptron does.
Beside that a sequence is gathered for the head, and gradients are summed up that each device has for its part of it.
"""


@pytest.mark.parametrize("name", COLLECTIVES)
def test_with_the_modules_of_a_plan_each_layer_sends_what_megatron_does(
    name: str, planned: tuple[Planned, Path]
) -> None:
    for rank in range(2):
        found = json.loads((planned[1] / "2" / f"{name}.{rank}.collectives").read_text())
        assert {when: found[when] for when in COLLECTIVES[name]} == COLLECTIVES[name]
        for when in ("forward", "backward"):
            assert sum(found[f"{when} by the plan"].values()) <= sum(found[f"{when} without modules"].values())


def assert_close(found: Any, expected: Any, what: str) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10, msg=lambda text: f"{what}: {text}")


def plan_of(module: Any, shardings: Shardings, mesh: sw.Mesh | None = None) -> sw.Plan:
    return sw.from_torch(module, (torch.randn(8, 16),)).shard(mesh or sw.Mesh(data=2, model=2), shardings)


def test_what_placements_cannot_say_is_refused_at_its_parameter() -> None:
    module = Perceptron()
    before = {name: (id(one), type(one)) for name, one in module.named_parameters()}
    part = plan_of(module, {"up.weight": "d:(1)2,-"}, sw.Mesh(d=4))
    saved = sw.SavedPlan(part.mesh, part.saved.arguments)
    other = plan_of(Perceptron((16, 32, 8)), {})
    for plan, message, remedy in (
        (part, "argument 'up.weight': DTensor cannot express this use of parts of mesh axes", "an axis for each part"),
        (saved, "argument 'up.weight': DTensor cannot express", "an axis for each part"),
        (other, r"'up.weight' is \[64, 16\] in the module", "give the module that the plan was made of"),
        (sw.SavedPlan(other.mesh, {}), "the plan has no argument 'up.weight'", "sw.from_torch"),
    ):
        with pytest.raises(sw.ShardingError, match=message) as refused:
            sw.parallelize(module, plan)
        assert remedy in refused.value.diagnostic.remedy
    assert {name: (id(one), type(one)) for name, one in module.named_parameters()} == before
    assert type(module) is Perceptron


def test_processes_that_are_not_those_of_the_mesh_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Perceptron()
    plan = plan_of(module, {"x": "data,-"})
    with pytest.raises(sw.ShardingError, match="no processes to lay a module out") as refused:
        sw.parallelize(module, plan)
    assert "torchrun --nproc-per-node 4" in refused.value.diagnostic.remedy
    for name, value in {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(sw.ShardingError, match=r"3 processes for the 4 devices of Mesh\(data=2, model=2\)"):
        sw.parallelize(module, plan)
    monkeypatch.setenv("WORLD_SIZE", "4")
    mesh = sw.Mesh([("data", 2), ("model", 2)], device_ids=[3, 1, 2, 0])
    with pytest.raises(sw.ShardingError, match="do not ascend along 'data'"):
        sw.parallelize(module, plan_of(module, {"x": "data,-"}, mesh))


def test_what_is_no_module_plan_or_mesh_is_refused() -> None:
    module = Perceptron()
    plan: Any = plan_of(module, {})
    given: tuple[tuple[tuple[Any, ...], str], ...] = (
        ((module.up.weight, plan), "not a module"),
        ((module, 5), "not a path"),
        ((module, plan, "cpu"), "not a device mesh"),
    )
    for arguments, message in given:
        with pytest.raises(sw.ShardingError, match=message):
            sw.parallelize(*arguments)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(Perceptron(), {})
    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", None)
    with pytest.raises(sw.ShardingError, match="to lay out a module needs torch") as refused:
        sw.parallelize(Perceptron(), plan)
    assert refused.value.diagnostic.remedy == "pip install 'shardwright[torch]'"


def test_a_plan_from_a_file_needs_no_torch_mlir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = plan_of(Perceptron(), {"x": "data,-"}).save(tmp_path / "plan.toml")
    for name in ("torch_mlir", "torch_mlir.fx"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(sw.ShardingError, match="no processes to lay a module out"):  # which comes after all imports
        sw.parallelize(Perceptron(), path)
