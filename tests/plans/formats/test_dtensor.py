"""The placements of DTensor from a plan: plain data that torch takes, and that is read back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwright as sw
from shardwright.mesh import Mesh
from shardwright.notation.registry import print_text
from shardwright.sharding import TensorSharding
from tests.oracles.peers import ask
from tests.plans.formats.programs import layouts, program, sharded
from tests.plans.test_text import PROPERTY
from tests.reshard.strategies import meshes, shardings

EXAMPLES = Path(__file__).parents[3] / "examples"
MESH = sw.Mesh(data=2, model=4)


def placed(name: str, content: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = content["arguments"][name]["placements"]
    return found


def test_an_argument_has_a_placement_for_every_axis() -> None:
    plan = program({"a.w": (8, 16), "b.w": (8, 8), "c.w": (8,)}).shard(
        MESH, {"a.w": ".,model", "b.w": "model+data,.", "c.w": "data+model"}
    )
    content = plan.to("dtensor", strict=True).content
    assert content["mesh"] == {"mesh_dim_names": ["data", "model"], "mesh": [[0, 1, 2, 3], [4, 5, 6, 7]]}
    assert content["arguments"]["a.w"] == {
        "shape": [8, 16],
        "text": "[Replicate(), Shard(1)]",
        "placements": [{"type": "Replicate"}, {"type": "Shard", "dim": 1}],
    }
    assert placed("b.w", content) == [
        {"type": "_StridedShard", "dim": 0, "split_factor": 4},
        {"type": "Shard", "dim": 0},
    ]
    assert placed("c.w", content) == [{"type": "Shard", "dim": 0}, {"type": "Shard", "dim": 0}]
    assert set(content["results"]) == {"result0"}
    assert json.loads(json.dumps(content)) == content


def test_partial_results_are_partial_there() -> None:
    text = (
        'sdy.mesh @m = <["x"=2]>\nfunc.func @main(%a: tensor<8xf32>) -> '
        '(tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{}], unreduced={"x"}>}) {\n  return %a : tensor<8xf32>\n}\n'
    )
    content = sw.load(text).plan().to("dtensor", strict=True).content
    assert content["results"]["result0"]["placements"] == [{"type": "Partial", "reduce_op": "sum"}]


def test_devices_are_in_the_order_of_the_mesh() -> None:
    mesh = sw.Mesh([("x", 2), ("y", 2)], device_ids=[3, 1, 2, 0])
    content = program({"w": (8,)}).shard(mesh, {"w": "x"}).to("dtensor").content
    assert content["mesh"]["mesh"] == [[3, 1], [2, 0]]
    assert program({"w": (8,)}).apply(content, strict=True).mesh == mesh


@pytest.mark.parametrize("name", ["gpt2", "decode"])
def test_an_example_comes_back(name: str) -> None:
    program = sw.load(EXAMPLES / f"{name}.mlir")
    plan = program.plan()
    again = program.apply(plan.to("dtensor", strict=True).content, strict=True)
    assert (again.arguments, again.results) == (plan.arguments, plan.results)


def test_parts_of_axes_are_told_or_refused() -> None:
    plan = program({"w": (8,)}).shard(MESH, {"w": "model:(1)2"})
    made = plan.to("dtensor")
    assert made.content["arguments"] == {}
    assert str(made.unsaid[0]) == "w: DTensor cannot express this use of parts of mesh axes: [{model:(1)2}]"
    with pytest.raises(sw.ShardingError, match="dtensor cannot say all of the plan: 1 entry would be left out"):
        plan.to("dtensor", strict=True)


MALFORMED = {
    "names of other axes": ({"mesh_dim_names": ["x"], "mesh": [[0, 1]]}, {}, "malformed entry 'mesh'"),
    "a ragged mesh": ({"mesh_dim_names": ["x", "y"], "mesh": [[0, 1], [2]]}, {}, "malformed entry 'mesh'"),
    "a device twice": ({"mesh_dim_names": ["x"], "mesh": [0, 0]}, {}, "device ids [0, 0] do not name each"),
    "no placements": ({"mesh_dim_names": ["x"], "mesh": [0, 1]}, {"w": {"shape": [8]}}, "malformed entry 'w'"),
    "too few": ({"mesh_dim_names": ["x"], "mesh": [0, 1]}, {"w": {"placements": []}}, "w: 0 placements are given"),
    "no placement": ({"mesh_dim_names": ["x"], "mesh": [0, 1]}, {"w": {"placements": [5]}}, "5 is no placement"),
    "an unknown one": ({"mesh_dim_names": ["x"], "mesh": [0, 1]}, {"w": {"placements": ["X(0)"]}}, "w: malformed"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused(name: str) -> None:
    mesh, arguments, message = MALFORMED[name]
    with pytest.raises(sw.ShardingError) as caught:
        program({"w": (8,)}).apply({"mesh": mesh, "arguments": arguments})
    assert message in str(caught.value)


def test_texts_stand_for_placements_and_the_program_for_shapes() -> None:
    said = {"mesh": {"mesh_dim_names": ["x"], "mesh": [0, 1]}, "arguments": {"w": {"placements": ["Shard(1)"]}}}
    assert layouts(program({"w": (8, 4)}).apply(said, strict=True)) == {"w": "[{}, {x}]"}


@st.composite
def cases(draw: st.DrawFn) -> tuple[Mesh, list[TensorSharding]]:
    mesh = draw(meshes())
    return mesh, draw(st.lists(shardings(mesh, 2), min_size=1, max_size=4))


@PROPERTY
@given(cases())
def test_what_is_said_is_what_the_notation_says_and_the_rest_is_told(case: tuple[Mesh, list[TensorSharding]]) -> None:
    mesh, lie = case
    known = program({f"m{number}.w": (48, 48) for number in range(len(lie))})
    plan = known.shard(mesh, list(lie))
    made = plan.to("dtensor")
    said = made.content["arguments"]
    told = {*said, *made.content["results"], *(one.name for one in made.unsaid)}
    assert told == {*plan.arguments, *plan.results}
    for name, one in said.items():
        assert one["text"] == print_text(plan.arguments[name], "dtensor", shape=(48, 48))
    again = known.apply(made.content)
    assert all(again.arguments[name].shards == plan.arguments[name].shards for name in said)


@pytest.mark.oracle
def test_torch_makes_placements_of_it_by_which_each_device_holds_the_same() -> None:
    rng = random.Random(5)
    plans = [random_plan(rng) for _ in range(40)]
    answers = ask("placements", [plan.to("dtensor", strict=True).content for plan in plans])
    for plan, held in zip(plans, answers, strict=True):
        for name, parts in held.items():
            shape = plan.source.graph.arguments[name].dims
            for position, (local, offset) in enumerate(parts):
                slices = plan.arguments[name].device_slice(shape, position)
                assert [(one.start, one.stop - one.start) for one in slices] == list(zip(offset, local, strict=True))


def random_plan(rng: random.Random) -> sw.Plan:
    """Arguments over whole axes in any order, which divide."""
    axes = dict(zip("abc", rng.choices([1, 2, 3, 4], k=3), strict=True))
    args = {}
    for number in range(4):
        dims: list[list[str]] = [[], []]
        for axis in rng.sample(list(axes), 3):
            place = rng.randrange(3)
            if place < 2:
                dims[place].append(axis)
        args[f"m{number}.w"] = ",".join("+".join(dim) or "." for dim in dims)
    return sharded(program(dict.fromkeys(args, (1728, 3456))), axes, args)
