"""What the modules of a model take and give is found in its program, and a plan says how it lies."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import Perceptron
from tests.frontends.torch.processes import MODELS

F = torch.nn.functional


class Scale(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """Takes tensors in a container and by keyword, and gives several."""

    def forward(self, batch: Any, *, by: Any, times: int = 2) -> Any:
        return {"more": batch["x"] * by * times, "less": (batch["x"] / by, times)}


class Nested(torch.nn.Module):  # type: ignore[misc]
    """A module called twice and under two names, one that does nothing, and one whose result is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Identity())
        self.other = self.inner
        self.scale, self.never = Scale(), torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        x = self.other(torch.relu_(self.inner(x)))
        scaled = self.scale({"x": x}, by=x + 1)
        return scaled["more"] + scaled["less"][0]


def parts(program: sw.Program) -> dict[tuple[str, str], Any]:
    """The number of each tensor by its call and its name, which tells inputs from outputs here."""
    return {(one.call, one.name): one.value for one in program.source.parts}


def test_each_call_of_a_module_has_what_it_takes_and_gives() -> None:
    module = Nested()
    program = sw.from_torch(module, (torch.randn(8, 16),))
    found = parts(program)
    assert list(found) == [
        ("inner", "input"),
        ("inner.0", "input"),
        ("inner.0", "result0"),
        ("inner.1", "input"),
        ("inner.1", "result0"),
        ("inner", "result0"),
        ("inner#1", "input"),
        ("inner.0#1", "input"),
        ("inner.0#1", "result0"),
        ("inner.1#1", "input"),
        ("inner.1#1", "result0"),
        ("inner#1", "result0"),
        ("scale", "batch/x"),
        ("scale", "by"),
        ("scale", "more"),
        ("scale", "less/0"),
    ]
    given = found["inner.0", "result0"]
    assert found["inner", "result0"] == found["inner.1", "input"] == found["inner.1", "result0"] == given
    assert found["inner#1", "input"] not in (given, found["inner#1", "result0"])  # what was written to is another
    assert found["inner", "input"] == program.graph.main.block.arguments[program.graph.main.argument_names.index("x")]
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert pickle.loads(pickle.dumps(program.source)).parts == program.source.parts


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(name, marks=pytest.mark.long) for name in ("convolution", "moe"))]
)
def test_training_steps_have_those_of_the_forward_pass(name: str) -> None:
    model = MODELS[name]
    module = model.make()

    def loss(module: Any, x: Any, y: Any) -> Any:
        return model.loss(module(x), y)

    forward = sw.from_torch(module, (model.inputs(),))
    step = sw.from_torch(
        module, (model.inputs(), model.labels()), train=loss, optimizer=model.optimizer(module.parameters())
    )
    assert list(parts(step)) == list(parts(forward))
    assert {one.call.partition("#")[0] for one in forward.source.parts} == {name for name, _ in module.named_children()}
    for program in (forward, step):
        made = {result: op for op in program.graph.walk() for result in op.results}
        assert set(parts(program).values()) <= {*made, *program.graph.main.block.arguments}


def test_a_loop_that_keeps_its_tensors_to_itself_is_read_without_its_parts() -> None:
    class Mapped(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(16, 16)

        def forward(self, x: Any) -> Any:
            return torch.vmap(self.inner)(x)

    module, x = Mapped(), torch.randn(8, 16)
    program = sw.from_torch(module, (x,))
    assert program.source.parts == ()
    assert [str(type) for type in program.results.values()] == ["tensor<8x16xf32>"]


def planned(shardings: dict[str | int, Any], mesh: Any = None) -> sw.Plan:
    program = sw.from_torch(Perceptron(), (torch.randn(8, 16),))
    return program.shard(mesh or {"data": 2, "model": 2}, shardings)


def test_a_plan_says_how_they_lie_and_is_read_back(tmp_path: Path) -> None:
    plan = planned({"x": "data,-", "up.weight": "model,-", "down.weight": "-,model"})
    lie = {
        call: {name: one.sharding for name, one in both.tensors.items()} for call, both in plan.saved.modules.items()
    }
    assert {call: {name: repr(one) for name, one in both.items()} for call, both in lie.items()} == {
        "up": {"input input": "[{data}, {}]", "output result0": "[{data}, {model}]"},
        "down": {"input input": "[{data}, {model}]", "output result0": "[{data}, {}]"},
    }
    path = plan.save(tmp_path / "plan.toml")
    assert sw.load_plan(path) == plan.saved
    assert plan.partition().saved.modules == plan.saved.modules
    assert plan.program.apply(path, strict=True).saved == plan.saved
    for old, new, message in (
        ("[modules]\nup = {inputs", "[modules]\nup = {taken", "unknown key 'taken'"),
        ("[modules]\nup = {inputs = {input = {", "[modules]\nup = {inputs = 5, out = {x = {", "modules: 'up' is none"),
        ('type = "8x16xf32", sharding = "data,."', 'type = "8x16xf32", sharding = "dat,."', "modules: 'up': "),
    ):
        text = path.read_text()
        assert old in text
        start = text.index("[modules]")
        (tmp_path / "wrong.toml").write_text(text[:start] + text[start:].replace(old, new, 1))
        with pytest.raises(sw.ShardingError, match=message) as refused:
            sw.load_plan(tmp_path / "wrong.toml")
        assert refused.value.diagnostic.location.startswith(f"{tmp_path / 'wrong.toml'}:")


def test_placements_are_written_for_them_and_what_is_left_to_dtensor_is_told() -> None:
    plan = planned({"x": "data,-", "up.weight": "model,-", "down.weight": "-,model"})
    written = plan.to("dtensor", strict=True).content["modules"]
    assert {
        call: {side: {name: one["text"] for name, one in tensors.items()} for side, tensors in both.items()}
        for call, both in written.items()
    } == {
        "up": {"inputs": {"input": "[Shard(0), Replicate()]"}, "outputs": {"result0": "[Shard(0), Shard(1)]"}},
        "down": {"inputs": {"input": "[Shard(0), Shard(1)]"}, "outputs": {"result0": "[Shard(0), Replicate()]"}},
    }
    part = planned({"x": "data,-", "up.weight": "d:(1)2,-"}, {"data": 2, "d": 4}).to("dtensor")
    assert [one.name for one in part.unsaid] == ["up.weight", "up: output result0", "down: input input"]
    assert part.content["modules"]["up"]["outputs"] == {}
    read = plan.program.apply(plan.to("dtensor").content)
    pairs = zip(read.saved.modules.values(), plan.saved.modules.values(), strict=True)
    for ours, theirs in pairs:
        assert {k: one.sharding for k, one in ours.tensors.items()} == {
            k: one.sharding for k, one in theirs.tensors.items()
        }
