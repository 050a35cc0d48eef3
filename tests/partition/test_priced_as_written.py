"""What a plan is said to cost is what the per-device program sends and starts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from shardwright.analysis.traffic import collectives, summarize
from shardwright.cost.hardware import BYTES
from shardwright.ir.context import load_module
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.notation.modules import read
from shardwright.partition import localize, materialize
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.reshard.strategies import reshards

PROPERTY = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def check(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> None:
    """Assert that a program which only redistributes a tensor communicates what the plan for that costs."""
    type = f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"
    axes = ", ".join(f'"{name}"={size}' for name, size in source.mesh.axes)
    before, after = (f"{{sdy.sharding = {sharding.to('sdy')}}}" for sharding in (source, target))
    text = f"""sdy.mesh @mesh = <[{axes}]>
        func.func @main(%a: {type} {before}) -> ({type} {after}) {{ return %a : {type} }}"""
    with Session(hardware=BYTES):
        cost = plan(shape, 4, source, target).cost
        local = localize(materialize(read(load_module(text))).graph)
    total = summarize(collectives(local)).total
    assert total.static == cost.starts
    assert total.static_bytes == pytest.approx(cost.bytes_sent)


@PROPERTY
@given(reshards(kinds=("sum",)))
def test_a_plan_costs_what_is_written(reshard: tuple[tuple[int, ...], TensorSharding, TensorSharding]) -> None:
    check(*reshard)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("a|b|||", "|||||"),  # gathered along two dimensions: two collectives
        ("a|b|||", "||a|b|"),  # two exchanges at once: one collective
        ("a|b,c|||", "||b,c|a|"),
        ("a,b|||c|", "|c|||"),
    ],
)
def test_steps_along_several_dimensions_are_counted_as_written(source: str, target: str) -> None:
    mesh = Mesh(a=2, b=3, c=2)
    dims = [[[axis for axis in dim.split(",") if axis] for dim in text.split("|")[:5]] for text in (source, target)]
    check((12, 12, 12, 12, 12), TensorSharding.of(mesh, dims[0]), TensorSharding.of(mesh, dims[1]))
