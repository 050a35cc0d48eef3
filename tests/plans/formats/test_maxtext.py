"""MaxText's dumps of shardings as shardings of arguments, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given

import shardwright as sw
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from tests.plans.formats.programs import layouts, program, sharded
from tests.plans.formats.test_torchtitan import whole, wide
from tests.plans.test_text import PROPERTY

SIZES = {"data": 1, "fsdp": 4, "tensor": 2, "expert": 1}
RULES = [["vocab", "tensor"], ["embed", ["fsdp", "expert"]], ["mlp", ["tensor"]], ["embed", "tensor"], ["norm", None]]


def entry(*spec: Any, shape: list[int] | None = None, sizes: dict[str, int] | None = None) -> dict[str, Any]:
    """A leaf as MaxText dumps it."""
    known = SIZES if sizes is None else sizes
    mesh = {"axis_names": list(known), "shape": known}
    return {"mesh": mesh, "partition_spec": list(spec), "shape": shape or [8] * len(spec)}


def state() -> sw.Program:
    """A step over a state as MaxText has one: parameters of a decoder, scanned over layers."""

    def step(state: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf * 2, state)

    leaf = jnp.zeros((16, 3, 8))
    params = {
        "decoder": {
            "layers": {"mlp": {"wi_0": {"kernel": leaf}, "wo": {"kernel": leaf}}},
            "norm": {"scale": leaf[0, 0]},
        }
    }
    return sw.from_jax(step, {"model": params, "count": jnp.zeros(())})


DUMP = {
    "['model']/['decoder']/['layers']/['mlp']/['wi_0']/['kernel']/.value": entry(
        "fsdp", None, "tensor", shape=[16, 3, 8]
    ),
    "['model']/['decoder']/['layers']/['mlp']/['wo']/['kernel']/.value": entry(
        ["tensor", "expert"], None, "fsdp", shape=[16, 3, 8]
    ),
    "['model']/['decoder']/['norm']/['scale']/.value": entry(None, shape=[8]),
    "['count']/.value": {**entry(), "shape": []},
}


def test_a_dump_brings_its_mesh_and_is_found_by_the_paths_of_leaves() -> None:
    plan = state().apply(DUMP, strict=True)
    assert plan.mesh == sw.Mesh(SIZES)
    start = "state/model/decoder/layers/mlp"
    assert layouts(plan) == {
        f"{start}/wi_0/kernel": "[{fsdp}, {}, {tensor}]",
        f"{start}/wo/kernel": "[{tensor}, {}, {fsdp}]",
    }
    assert plan.fit is not None
    assert plan.fit.new == ()


def test_it_is_applied_on_another_mesh_by_names_and_needs_no_axes_of_size_1() -> None:
    plan = state().apply(DUMP, sw.Mesh(fsdp=2, tensor=4), strict=True)
    assert len(layouts(plan)) == 2


def test_logical_axes_are_split_by_the_rules_each_axis_of_the_mesh_once() -> None:
    logical = {
        "['wi']": {"partition_spec": ["embed", "layers", "mlp"], "shape": [8, 3, 8]},
        "['tokens']": {"partition_spec": ["vocab", "embed"], "shape": [8, 8]},
        "['twice']": {"partition_spec": ["mlp", "vocab"], "shape": [8, 8]},
        "['norm']": {"partition_spec": ["norm"], "shape": [8]},
    }
    known = program({"wi": (8, 3, 8), "tokens": (8, 8), "twice": (8, 8), "norm": (8,)})
    plan = known.apply(sw.load_plan(logical, rules=RULES), sw.Mesh(fsdp=4, tensor=2), strict=True)
    assert layouts(plan) == {
        "wi": "[{fsdp}, {}, {tensor}]",
        "tokens": "[{tensor}, {fsdp}]",
        "twice": "[{}, {tensor}]",  # the rule of vocab comes first
    }
    with pytest.raises(sw.ShardingError, match=r"say what logical axes are: sw.load_plan\(dump, rules=\[...\]\)"):
        known.apply(logical, sw.Mesh(fsdp=4, tensor=2))


def test_a_leaf_of_another_shape_is_told() -> None:
    plan = program({"w": (6, 8)}).apply({"['w']": entry("fsdp", None)})
    assert plan.fit is not None
    assert plan.fit.unfit[0].cause == (
        "dimension 0 of tensor<6x8xf32> does not divide by 4 (fsdp=4); when the plan was made it was 8 over 4"
    )


REFUSED = {
    "several meshes": ({"['a']": entry(None), "['b']": entry(None, sizes={"x": 2})}, "the plan is on several meshes"),
    "a mesh that is none": ({"['a']": {"mesh": 5, "partition_spec": []}}, "malformed entry"),
    "an unknown axis": ({"['a']": entry("y")}, "it names 'y', and the mesh has data, fsdp"),
    "a spec that is none": ({"['a']": {**entry(), "partition_spec": "x"}}, "its partition_spec is 'x'"),
    "a shape that is none": ({"['a']": {**entry(None), "shape": "8"}}, "its shape is '8'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_malformed_is_refused(name: str) -> None:
    content, message = REFUSED[name]
    with pytest.raises(sw.ShardingError) as caught:
        program({"a": (8,), "b": (8,)}).apply(content)
    assert message in str(caught.value)


def test_rules_that_are_none_are_refused() -> None:
    for rules in (5, ["embed"], [[1, "fsdp"]], [["embed", 5]], [["embed", [5]]]):
        with pytest.raises(sw.ShardingError, match="not rules of logical axes"):
            program({"a": (8,)}).apply(sw.load_plan({"['a']": entry(None)}, rules=rules))


def test_leaves_that_are_not_there_or_not_one_are_told() -> None:
    content = {
        "['w']": entry("fsdp"),
        "['v']": entry("fsdp"),
        "['u']": entry("fsdp", "fsdp"),
        "['t']": entry(None, None),
    }
    shapes = {"u": (8, 8), "t": (8,)}
    plan = program({**shapes, "a.w": (8,), "b.w": (8,)}).apply(content)
    assert plan.fit is not None
    assert {one.name: one.cause for one in plan.fit.unfit} == {
        "w": "several arguments end so: a.w, b.w",
        "v": "no argument has such a path",
        "u": "mesh axis 'fsdp' is used twice in [{fsdp}, {fsdp}]",
        "t": "it is tensor<8xf32>, the plan says 2 dimensions, [{}, {}]",
    }


def test_a_file_of_it_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "named_shardings.json").write_text(json.dumps(DUMP, indent=2))
    assert state().apply(tmp_path / "named_shardings.json").arguments == state().apply(DUMP).arguments


def test_it_is_written_as_it_is_read() -> None:
    made = state().apply(DUMP).to("maxtext", strict=True)
    key = "['state']/['model']/['decoder']/['layers']/['mlp']/['wi_0']/['kernel']"
    assert made.content[key] == entry("fsdp", None, "tensor", shape=[16, 3, 8])
    assert state().apply(made.content, strict=True).arguments == state().apply(DUMP).arguments


def test_what_it_cannot_say_is_told() -> None:
    plan = program({"a.0": (8,)}).shard(sw.Mesh([("x", 4)], device_ids=[1, 0, 2, 3]), {0: "x:(1)2"})
    made = plan.to("maxtext")
    assert made.notes == ("MaxText's JSON does not say the order of devices, [1, 0, 2, 3]",)
    assert [one.name for one in made.unsaid] == ["a.0"]


@PROPERTY
@given(whole())
def test_what_is_written_is_read_back(case: tuple[Mesh, dict[str, TensorSharding]]) -> None:
    mesh, lie = case
    if not lie or mesh.device_ids is not None:
        return
    known = program(dict.fromkeys(lie, (864, 864)))
    plan = sharded(known, mesh, lie)
    again = known.apply(plan.to("maxtext", strict=True).content, strict=True)
    assert again.mesh == mesh
    assert {name: wide(one) for name, one in again.arguments.items()} == {
        name: wide(one) for name, one in plan.arguments.items()
    }
