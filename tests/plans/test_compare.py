"""What differs between two plans: nothing is left out, and nothing told that is the same."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given

import shardwright as sw
from shardwright.plans.compare import Change, Difference, compare_plans
from shardwright.plans.saved import PlannedModule, PlannedTensor, SavedPlan
from tests.plans.test_text import PROPERTY, plans

EXAMPLES = Path(__file__).parents[2] / "examples"


@PROPERTY
@given(plans())
def test_a_plan_differs_from_itself_in_nothing(plan: SavedPlan) -> None:
    assert compare_plans(plan, plan).is_empty


@PROPERTY
@given(plans(), plans())
def test_what_is_told_is_told_the_other_way_round_too(one: SavedPlan, other: SavedPlan) -> None:
    there, back = compare_plans(one, other), compare_plans(other, one)
    for field in fields(Difference):
        if field.name == "compared":
            continue
        pairs = {(change.name, str(change.before), str(change.after)) for change in getattr(there, field.name)}
        assert pairs == {(change.name, str(change.after), str(change.before)) for change in getattr(back, field.name)}
    assert there.compared == back.compared


def example() -> SavedPlan:
    return sw.load(EXAMPLES / "mlp.mlir").plan().partition().saved


def test_arguments_that_lie_otherwise_are_told_with_what_devices_hold() -> None:
    plan = sw.load(EXAMPLES / "mlp.mlir").plan()
    name = list(plan.arguments)[1]
    other = plan.with_arguments({name: sw.P()})
    [change] = compare_plans(plan.saved, other.saved).arguments
    type = plan.source.graph.arguments[name]
    assert (change.name, change.after) == (name, ",".join("." * type.rank))
    assert change.bytes_after == type.bytes
    assert change.bytes_before == type.bytes // plan.arguments[name].shards


def changed(change: str) -> tuple[SavedPlan, SavedPlan]:
    """Two plans that differ in one thing."""
    plan = example()
    first = next(iter(plan.arguments))
    entry = plan.arguments[first]
    assert plan.partitioning is not None
    assert plan.outcome is not None
    made = {
        "mesh": replace(plan, mesh=sw.Mesh(plan.mesh.axes, device_ids=[1, 0, *range(2, plan.mesh.size)])),
        "arguments": replace(plan, arguments={name: one for name, one in plan.arguments.items() if name != first}),
        "results": replace(plan, results={}),
        "given": replace(plan, arguments={**plan.arguments, first: PlannedTensor(entry.sharding, None, entry.type)}),
        "types": replace(plan, arguments={**plan.arguments, first: other_type(entry)}),
        "modules": replace(plan, modules={"inner": PlannedModule({"x": entry})}),
        "constraints": replace(plan, constraints=plan.constraints[1:]),
        "how": replace(plan, partitioning=replace(plan.partitioning, effort="best")),
        "outcome": replace(plan, outcome=replace(plan.outcome, collectives=7)),
    }
    return plan, made[change]


def other_type(entry: PlannedTensor) -> PlannedTensor:
    assert entry.type is not None
    return replace(entry, type=type(entry.type)(entry.type.dims, "f64"))


@pytest.mark.parametrize("field", [one.name for one in fields(Difference) if one.name != "compared"])
def test_each_thing_is_told_where_it_belongs_and_nowhere_else(field: str) -> None:
    difference = compare_plans(*changed(field))
    told = {one.name for one in fields(Difference) if one.name != "compared" and getattr(difference, one.name)}
    assert told == {field}


def test_how_is_told_by_name() -> None:
    assert compare_plans(*changed("how")).how == (Change("effort", "default", "best"),)
