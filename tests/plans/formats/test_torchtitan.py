"""torchtitan's `ShardingConfig` as shardings of arguments, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwright as sw
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from tests.plans.formats.programs import layouts, program, sharded
from tests.plans.test_text import PROPERTY
from tests.reshard.strategies import meshes, shardings

MESH = sw.Mesh(dp_replicate=1, dp_shard=2, cp=1, tp=4)


def config(**states: Any) -> dict[str, Any]:
    return {"state_shardings": states}


def dense(tp: str) -> dict[str, str]:
    """A parameter of a dense layer, as torchtitan's models say it."""
    return {"dp": "R", "cp": "R", "tp": tp}


def test_a_layer_lies_as_it_says() -> None:
    content = {
        "layers.*.attention.wq": config(weight=dense("S(0)"), bias=dense("Shard(dim=0)")),
        "layers.*.attention.wo": config(weight=dense("S(-1)"), bias=dense("I")),
        "tok_embeddings": config(weight={"dp_replicate": "R", "dp_shard": "S(1)", "tp": "S(0)"}),
    }
    shapes: dict[str, tuple[int, ...]] = {"tok_embeddings.weight": (64, 8)}
    for layer in range(2):
        shapes |= {f"layers.{layer}.attention.{one}.weight": (8, 16) for one in ("wq", "wo")}
        shapes |= {f"layers.{layer}.attention.{one}.bias": (8,) for one in ("wq", "wo")}
    plan = program(shapes).apply(content, MESH, strict=True)
    assert layouts(plan) == {
        "tok_embeddings.weight": "[{tp}, {dp_shard}]",
        **{f"layers.{layer}.attention.wq.weight": "[{tp}, {}]" for layer in range(2)},
        **{f"layers.{layer}.attention.wq.bias": "[{tp}]" for layer in range(2)},
        **{f"layers.{layer}.attention.wo.weight": "[{}, {tp}]" for layer in range(2)},
    }


def test_several_axes_of_one_dimension_are_in_the_order_of_the_partition_spec() -> None:
    layout = {"axis_types": {"dp": "V", "cp": "R", "tp": "V"}, "partition_spec": [["tp", "dp"], None]}
    plan = program({"m.lin.weight": (16, 8)}).apply({"lin": config(weight=layout)}, MESH, strict=True)
    assert layouts(plan) == {"m.lin.weight": "[{tp, dp_shard}, {}]"}
    assert plan.to("torchtitan", strict=True).content == {
        "m.lin": config(
            weight={
                "axis_types": {"dp_replicate": "R", "dp_shard": "V", "cp": "R", "tp": "V"},
                "partition_spec": [["tp", "dp_shard"], None],
            }
        )
    }


def test_what_has_no_module_is_the_root_s() -> None:
    shapes = {"weight": (8, 8), "m.weight": (8, 8)}
    plan = program(shapes).apply({"": config(weight=dense("S(0)"))}, MESH, strict=True)
    assert layouts(plan) == {"weight": "[{tp}, {}]"}
    assert plan.to("torchtitan").content[""] == config(
        weight={"dp_replicate": "R", "dp_shard": "R", "cp": "R", "tp": "S(0)"}
    )


def test_what_is_said_of_inputs_and_outputs_is_a_note() -> None:
    content = {"lin": {**config(weight=dense("S(0)")), "in_dst_shardings": {"x": dense("R")}}}
    plan = program({"m.lin.weight": (8, 8)}).apply(content, MESH, strict=True)
    assert [note.message for note in plan.notes] == [
        "in_dst_shardings are not taken over: they follow from how tensors lie"
    ]


REFUSED = {
    "an axis of which nothing is said": ({"dp": "R"}, "nothing is said of the mesh axis 'tp'"),
    "varying without a dimension": (dense("V"), "it varies along 'tp', and no partition_spec says"),
    "two axes of one dimension": ({"dp": "S(0)", "tp": "S(0)"}, "several axes split dimension 0"),
    "a dimension that is not there": (dense("S(2)"), "'tp' splits dimension 2, and it has 2 dimensions"),
    "an unknown type": (dense("X"), "'tp' has the type 'X'"),
    "no layout": ("S(0)", "'S(0)' is no layout"),
    "a spec that is none": ({"axis_types": dense("V"), "partition_spec": "tp"}, "is no layout"),
    "an entry that is none": ({"axis_types": dense("V"), "partition_spec": [5]}, "has the entry 5"),
    "a dimension beside a spec": (
        {"axis_types": dense("S(0)"), "partition_spec": ["tp"]},
        "axes that split are of the type V",
    ),
    "an axis that does not vary": ({"axis_types": dense("R"), "partition_spec": ["tp"]}, "which is 'R' and not 'V'"),
    "too many entries": ({"axis_types": dense("V"), "partition_spec": [None, None, "tp"]}, "splits dimension 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torchtitan_would_refuse_is_told(name: str) -> None:
    layout, cause = REFUSED[name]
    plan = program({"m.lin.weight": (8, 8)}).apply({"lin": config(weight=layout)}, MESH)
    assert plan.fit is not None
    [unfit] = plan.fit.unfit
    assert unfit.name == "m.lin.weight"
    assert cause in unfit.cause


def test_entries_of_nothing_and_values_that_are_none_are_told() -> None:
    plan = program({"m.lin.weight": (8, 8)}).apply({"lin.weight": config(weight=dense("S(0)"))}, MESH)
    assert plan.fit is not None
    assert [str(one) for one in plan.fit.unfit] == ["the plan: entry 'lin.weight.weight': no argument has such a name"]
    with pytest.raises(sw.ShardingError, match="state_shardings is 5"):
        program({"m.lin.weight": (8, 8)}).apply({"lin": {"state_shardings": 5}}, MESH)


@pytest.mark.parametrize("spec", ["tp:(1)2,.", ".,tp:(2)2"])
def test_parts_of_axes_are_left_out_or_refused(spec: str) -> None:
    plan = program({"m.lin.weight": (8, 8)}).shard(MESH, {0: spec})
    [unsaid] = plan.to("torchtitan").unsaid
    assert "torchtitan has no parts of axes" in unsaid.cause
    with pytest.raises(sw.ShardingError, match="torchtitan cannot say all of the plan"):
        plan.to("torchtitan", strict=True)


@st.composite
def whole(draw: st.DrawFn) -> tuple[Mesh, dict[str, TensorSharding]]:
    """Shardings over whole axes."""
    mesh = draw(meshes())
    drawn = draw(st.lists(shardings(mesh, 2), min_size=1, max_size=4))
    kept = [one for one in drawn if all(map(mesh.is_full, one.used_axes))]
    return mesh, {f"m.layers.{number}.lin.weight": one for number, one in enumerate(kept)}


@PROPERTY
@given(whole())
def test_what_is_written_is_read_back(case: tuple[Mesh, dict[str, TensorSharding]]) -> None:
    mesh, lie = case
    if not lie:
        return
    known = program(dict.fromkeys(lie, (864, 864)))
    plan = sharded(known, mesh, lie)
    again = known.apply(plan.to("torchtitan", strict=True).content, mesh, strict=True)
    assert {name: wide(one) for name, one in again.arguments.items()} == {
        name: wide(one) for name, one in plan.arguments.items()
    }


def wide(sharding: TensorSharding) -> list[list[str]]:
    """The axes of each dimension, without those of size 1."""
    return [[axis.name for axis in axes if axis.size > 1] for axes in sharding.axes]
