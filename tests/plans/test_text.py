"""Plans as text: what is written is read back, and what is none is told with its line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwright.cost.outcome import Outcome
from shardwright.errors import ShardingError
from shardwright.ir.context import reduction_kinds
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.layouts import layout_text, parse_layout
from shardwright.plans.read import parse_plan
from shardwright.plans.saved import Constraint, Partitioning, PlannedModule, PlannedTensor, SavedPlan
from shardwright.plans.text import plan_text
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.stage import ARGUMENTS, EFFORTS, OPTIMIZATIONS
from tests.reshard.strategies import meshes, shardings

PROPERTY = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MESH = Mesh(data=2, model=4)
GOOD = """\
shardwright_plan = 1
program = "step.mlir"

[mesh]
axes = [["data", 2], ["model", 4]]

[propagation]
strategy = "basic"

[partition]
effort = "fast"

[arguments]
"params/w1" = {type = "64x256xf32", sharding = ".,model", given = "-,model"}
batch = "data,-"

[results]
loss = {type = "f32", sharding = "", completed = true}

[[constraints]]
at = "step.py:3"
sharding = "data,."
"""


@st.composite
def annotated(draw: st.DrawFn, mesh: Mesh, rank: int) -> TensorSharding:
    """Layouts, partial by sums, and what propagation may do with them: open dimensions, priorities."""
    sharding = draw(shardings(mesh, rank, ("sum",)))
    dims = tuple(
        DimSharding(dim.axes, draw(st.booleans()), draw(st.sampled_from([None, None, 1, 2]))) for dim in sharding.dims
    )
    allowed = tuple(dim if dim.axes or dim.open else replace(dim, priority=None) for dim in dims)
    return replace(sharding, dims=allowed)


@st.composite
def tensors(draw: st.DrawFn, mesh: Mesh) -> PlannedTensor:
    rank = draw(st.integers(0, 3))
    sharding = draw(shardings(mesh, rank, ("sum",)))
    given = draw(st.none() | st.just(sharding) | annotated(mesh, rank))
    type = draw(st.none() | st.just(TensorType((24,) * rank, "f32")))
    return PlannedTensor(sharding, given, type)


@st.composite
def plans(draw: st.DrawFn) -> SavedPlan:
    mesh = draw(meshes())
    named = st.dictionaries(NAMES, tensors(mesh), max_size=4)
    choices = (st.sampled_from(list(one)) for one in (ARGUMENTS, EFFORTS, OPTIMIZATIONS))
    module = st.builds(PlannedModule, *[st.dictionaries(NAMES, tensors(mesh), max_size=1)] * 2)
    count = st.integers(0, 1 << 60)
    constraint = st.builds(Constraint, NAMES, annotated(mesh, 2), st.none() | st.just(TensorType((4, 8), "bf16")))
    return SavedPlan(
        mesh,
        draw(named),
        draw(named),
        tuple(draw(st.lists(constraint, max_size=2))),
        draw(NAMES),
        draw(st.none() | st.sampled_from(["basic", "aggressive"])),
        draw(st.none() | st.booleans()),
        draw(st.none() | st.builds(Partitioning, *choices, NAMES)),
        draw(st.none() | st.builds(Outcome, st.floats(0, 1e9), count, count, count, count)),
        modules=draw(st.dictionaries(NAMES, module, max_size=2)),
    )


@PROPERTY
@given(plans())
def test_a_plan_is_what_its_text_says(plan: SavedPlan) -> None:
    text = plan_text(plan)
    assert parse_plan(text, "plan.toml") == plan
    assert plan_text(parse_plan(text, "plan.toml")) == text


@pytest.mark.parametrize(
    "sharding",
    [
        TensorSharding.of(MESH, [["data"], []]),
        TensorSharding(MESH, (DimSharding((MESH.axis("model", 2, 2),), True, 3), DimSharding())),
        TensorSharding(MESH, (DimSharding(), DimSharding()), (MESH.axis("data"),)),
        TensorSharding.of(MESH, [["data"], []], partial=["model"], kind="max"),
        replace(TensorSharding.of(MESH, [["data"], []]), offsets=((0, 3, 8), None)),
        replace(TensorSharding.of(MESH, [["data"], []]), halos=((1, 0), None)),
        TensorSharding.of(Mesh([("a b", 2), ("#x", 2)]), [["a b"], ["#x"]]),
        TensorSharding.of(Mesh([("#x", 2)]), [["#x"], []]),
        TensorSharding.of(Mesh([("-", 2)]), [["-"], []]),
    ],
    ids=repr,
)
def test_every_layout_has_a_text(sharding: TensorSharding) -> None:
    assert parse_layout(layout_text(sharding, (8, 8)), sharding.mesh, (8, 8)) == sharding


@pytest.mark.parametrize("kind", sorted({"max", "product"} - set(reduction_kinds())))  # jaxlib 0.11 has words for max
def test_what_no_notation_says_is_refused(kind: str) -> None:
    dims = (DimSharding((MESH.axis("data"),), True, 1), DimSharding())
    sharding = TensorSharding(MESH, dims, partial=(Partial(MESH.axis("model"), kind),))
    with pytest.raises(ShardingError, match="cannot be written down"):
        layout_text(sharding, (8, 8))


def test_the_example_is_read() -> None:
    plan = parse_plan(GOOD, "plan.toml")
    assert plan.mesh == MESH
    assert repr(plan.arguments["params/w1"].given) == "[{?}, {model}]"
    assert plan.arguments["batch"].given == plan.arguments["batch"].sharding
    assert [one.line for one in plan.arguments.values()] == [14, 15]
    assert plan.results["loss"].given is None
    assert plan.partitioning == Partitioning("split", "fast", "off")


BAD = {
    "no TOML": ("[mesh]", "[mesh", "plan.toml:4:6: error: the plan is not TOML"),
    "no plan": ("shardwright_plan = 1\n", "", "plan.toml: error: the file is no plan"),
    "a later version": ("plan = 1", "plan = 2", "plan.toml:1: error: a plan of version 2"),
    "a version that is none": ("plan = 1", "plan = true", "plan.toml:1: error: a plan of version True"),
    "an unknown table": ("[results]", "[result]", "plan.toml:17: error: unknown key 'result'"),
    "an unknown key": ('strategy = "basic"', "order = 1", "plan.toml:8: error: unknown key 'order'"),
    "an unknown strategy": ('"basic"', '"fast"', "plan.toml:8: error: unknown strategy 'fast'"),
    "an unknown effort": ('effort = "fast"', 'effort = "more"', "plan.toml:11: error: partition.effort is 'more'"),
    "no mesh": ('[mesh]\naxes = [["data", 2], ["model", 4]]', "", "plan.toml: error: the plan has no mesh"),
    "a mesh without axes": ("axes =", "device_ids =", "plan.toml:4: error: the plan has no mesh"),
    "a mesh that is none": ('["data", 2]', "5", "plan.toml:5: error: not the axes of a mesh"),
    "an axis twice": ('"model", 4', '"data", 4', "plan.toml:5: error: mesh axis 'data' appears twice"),
    "an unknown axis": ("-,model", "-,modle", "plan.toml:14: error: arguments: 'params/w1': unknown mesh axis 'modle'"),
    "another rank": ("64x256x", "256x", "plan.toml:14: error: arguments: 'params/w1': '.,model' has 2 entries"),
    "no type": ("64x256xf32", "64,256xf32", "plan.toml:14: error: arguments: 'params/w1': not a type: '64,256xf32'"),
    "no sharding": ('sharding = "", ', "", "plan.toml:18: error: results: 'loss' has no sharding"),
    "a sharding that is a number": ('"data,-"', "7", "plan.toml:15: error: arguments: 'batch' has no sharding"),
    "an unknown key of an argument": ("given", "gave", "plan.toml:14: error: unknown key 'gave'"),
    "a constraint without a place": ('at = "step.py:3"\n', "", "plan.toml:20: error: a constraint has no place"),
    "a name that is a number": ('program = "step.mlir"', "program = 5", "plan.toml:2: error: program is an int"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_with_its_line(name: str) -> None:
    old, new, message = BAD[name]
    assert old in GOOD
    with pytest.raises(ShardingError) as caught:
        parse_plan(GOOD.replace(old, new, 1), "plan.toml")
    assert str(caught.value).startswith(message)
    assert caught.value.diagnostic.remedy
