"""What modules take and give, stated by users and by plans of other frameworks, in programs of PyTorch models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch
from tests.frontends.torch.models import GPT, Perceptron
from tests.frontends.torch.test_parallel import HEADS, along_sequence

MESH = sw.Mesh(data=2, model=2)


@pytest.fixture(scope="module")
def gpt() -> sw.Program:
    return sw.from_torch(GPT(is_split=True), (torch.zeros(8, 16, dtype=torch.int64),))


@pytest.fixture(scope="module")
def perceptron() -> sw.Program:
    return sw.from_torch(Perceptron(), (torch.randn(8, 16),))


def lie(plan: sw.Plan, start: str = "") -> dict[str, str]:
    """How what modules take and give lies, by their names."""
    return {
        f"{call} {name}": repr(one.sharding)
        for call, module in plan.saved.modules.items()
        if call.startswith(start)
        for name, one in module.tensors.items()
    }


def sequence(gpt: sw.Program) -> sw.Plan:
    return gpt.shard(MESH, {"tokens": "data,-", **HEADS}, modules=along_sequence("data"))


def test_what_is_stated_of_modules_holds_inside_of_them_alone(gpt: sw.Program) -> None:
    plan = sequence(gpt)
    split, whole = "[{data}, {model}, {}]", "[{data}, {}, {}]"
    assert lie(plan, "blocks.1.attn") == {
        "blocks.1.attn input x": whole,
        "blocks.1.attn output result0": split,
        **{f"blocks.1.attn.{one} input input": whole for one in "qkv"},
        **{f"blocks.1.attn.{one} output result0": "[{data}, {}, {model}]" for one in "qkv"},
        "blocks.1.attn.out input input": "[{data}, {}, {model}]",
        "blocks.1.attn.out output result0": split,
    }
    assert lie(plan, "blocks.1.ln") == {
        f"blocks.1.ln{number} {what}": split for number in (1, 2) for what in ("input input", "output result0")
    }
    given = {name for name, one in plan.saved.modules["blocks.1.attn"].tensors.items() if one.given is not None}
    assert given == {"input x", "output result0"}
    assert plan.saved.constraints == ()
    assert "blocks.1.attn.inputs.x" in plan.module()


def test_it_is_saved_and_applied_again(gpt: sw.Program, perceptron: sw.Program, tmp_path: Path) -> None:
    plan = sequence(gpt)
    path = plan.save(tmp_path / "plan.toml")
    again = gpt.apply(path, strict=True)
    assert again.saved == plan.saved == sw.load_plan(path)
    assert plan.with_arguments({"wte.weight": "model,-"}).saved.modules["head"] != plan.saved.modules["head"]
    other = perceptron.apply(path)
    assert other.fit is not None
    assert {one.what for one in other.fit.unfit} == {"argument", "result", "module"}
    with pytest.raises(sw.ShardingError, match=r"module 'blocks\.0\.inputs\.x': the program has no such tensor"):
        perceptron.apply(sw.SavedPlan(plan.mesh, {}, modules=plan.saved.modules), strict=True)


def test_the_program_that_is_partitioned_so_is_right(perceptron: sw.Program) -> None:
    modules = {"up.inputs.input": ".,.", "up.outputs.result0": "data,-", "down.inputs": "-,data"}
    plan = perceptron.shard({"data": 2}, {"x": "data,-"}, modules=modules)
    assert lie(plan) == {
        "up input input": "[{}, {}]",
        "up output result0": "[{data}, {}]",
        "down input input": "[{}, {data}]",
        "down output result0": "[{}, {}]",
    }
    assert plan.partition().verify().ok


def test_a_tree_and_paths_name_them_and_others_are_refused(perceptron: sw.Program) -> None:
    given: Any = {"up": {"outputs": {"result0": "data,."}}}
    assert lie(perceptron.shard({"data": 2}, modules=given))["up output result0"] == "[{data}, {}]"
    for modules, message in (
        ({"upp.inputs": "data"}, "no module tensor matches 'upp.inputs'"),
        ({"up.inputs": "data,-,-"}, "3 entries"),
        ({"up.inputs": "dat,-"}, "dat"),
        ("data", "not shardings of module tensors"),
    ):
        with pytest.raises(sw.ShardingError, match=message):
            perceptron.shard({"data": 2}, modules=modules)
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n"
    with pytest.raises(sw.ShardingError, match="nothing is known of what modules take and give"):
        sw.load(text).shard({"data": 2}, modules={"up.inputs": "data"})


def test_torchtitan_says_it_and_is_read(gpt: sw.Program) -> None:
    plan = sequence(gpt)
    said = plan.to("torchtitan", strict=True).content
    split, whole = {"data": "S(0)", "model": "S(1)"}, {"data": "S(0)", "model": "R"}
    assert said["blocks.*.attn"] == {"in_dst_shardings": {"x": whole}, "out_dst_shardings": split}
    assert said["blocks.*.ln1"]["in_dst_shardings"] == {"input": split}
    assert said["blocks.*.attn.q"]["state_shardings"]["weight"] == {"data": "R", "model": "S(0)"}
    again = gpt.apply(said, MESH, strict=True)
    assert (lie(again), again.arguments) == (lie(plan), plan.arguments)
    own = {"attn": {"in_src_shardings": {"x": split}, "in_dst_shardings": {"x": whole}, "out_dst_shardings": None}}
    read = gpt.apply(own, MESH)
    assert lie(read)["blocks.0.attn input x"] == "[{data}, {}, {}]"
    assert any("in_src_shardings are not taken over" in note.message for note in read.notes)
    wrong = gpt.apply({"attn": {"out_dst_shardings": {"data": "S(0)", "model": "P"}}}, MESH)
    assert wrong.fit is not None
    assert [one.name for one in wrong.fit.unfit] == [f"blocks.{number}.attn.outputs.result0" for number in (0, 1)]


def test_entries_of_torchtitan_that_are_about_nothing_are_told(perceptron: sw.Program) -> None:
    layout = {"x": "S(0)"}
    own = {
        "up": {"in_dst_shardings": {"y": layout}},
        "other": {"out_dst_shardings": layout},
        "down": {"in_dst_shardings": 5},
    }
    plan = perceptron.apply(own, {"x": 2})
    assert plan.fit is not None
    assert [one.name for one in plan.fit.unfit] == ["up: y", "other: out_dst_shardings", "down: in_dst_shardings"]


STYLES = {
    **{f"blocks.*.attn.{one}": "colwise" for one in "qkv"},
    **dict.fromkeys(("blocks.*.attn.out", "blocks.*.down"), "rowwise"),
    "blocks.*.up": "colwise",
}


def test_styles_say_it_along_their_axis(gpt: sw.Program, perceptron: sw.Program) -> None:
    plan = gpt.apply(sw.load_plan(STYLES, axis="model"), MESH, {"tokens": "data,-"}, strict=True)
    assert lie(plan, "blocks.0.up") == {
        "blocks.0.up input input": "[{data}, {}, {}]",
        "blocks.0.up output result0": "[{data}, {}, {model}]",
    }
    written = plan.to("tp_plan")
    assert (written.content, [one.name for one in written.unsaid]) == (STYLES, ["tokens"])
    styles = {**STYLES, "blocks.*.ln1": "sequence_parallel"}
    normed = gpt.apply(sw.load_plan(styles, axis="model"), MESH, {"tokens": "data,-"})
    assert lie(normed, "blocks.1.ln1") == {
        f"blocks.1.ln1 {what}": "[{data}, {model}, {}]" for what in ("input input", "output result0")
    }
    assert normed.to("tp_plan").content["blocks.*.ln1"] == "sequence_parallel"
    gathered = {"up": "colwise_rep", "down": "rowwise_split_input"}
    both = perceptron.apply(gathered, {"tp": 2})
    assert set(lie(both).values()) == {"[{}, {}]"}
    assert both.to("tp_plan", strict=True).content == {"up": "colwise_gather_output", "down": "rowwise_split_input"}


def test_what_no_style_says_is_told(gpt: sw.Program) -> None:
    made = sequence(gpt).to("tp_plan")
    assert {one.name for one in made.unsaid} >= {"blocks.*.down", "blocks.*.attn.out"}
    assert made.content["norm"] == made.content["blocks.*.ln2"] == "sequence_parallel"


def test_dtensor_placements_are_read_as_what_was_stated(gpt: sw.Program) -> None:
    plan = sequence(gpt)
    again = gpt.apply(plan.to("dtensor", strict=True).content, strict=True)
    assert lie(again) == lie(plan)
    for modules in (5, {"up": 5}, {"up": {"inputs": 5}}, {"up": {"inputs": {"input": {"shape": [8, 16]}}}}):
        with pytest.raises(sw.ShardingError, match="malformed entry"):
            gpt.apply({"mesh": {"mesh_dim_names": ["x"], "mesh": [0, 1]}, "modules": modules})
