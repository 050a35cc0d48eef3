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
from shardwright.propagation import propagate
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from tests.reshard.sdy_text import redistribution
from tests.reshard.strategies import reshards

PROPERTY = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def check(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding) -> None:
    """Assert that a program which only redistributes a tensor communicates what the plan for that costs."""
    with Session(hardware=BYTES):
        cost = plan(shape, 4, source, target).cost
        local = localize(materialize(read(load_module(redistribution(shape, source, target)))).graph)
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
        ("a|b|||", "||b,a||"),  # two dimensions give to one: one collective
        ("a,b,c||||", "|a,c|b||"),  # one gives to two
    ],
)
def test_steps_along_several_dimensions_are_counted_as_written(source: str, target: str) -> None:
    mesh = Mesh(a=2, b=3, c=2)
    dims = [[[axis for axis in dim.split(",") if axis] for dim in text.split("|")[:5]] for text in (source, target)]
    check((12, 12, 12, 12, 12), TensorSharding.of(mesh, dims[0]), TensorSharding.of(mesh, dims[1]))


@pytest.mark.parametrize("rows", [24, 25])
@pytest.mark.parametrize(
    ("kind", "dtype"), [("and", "i32"), ("xor", "i32"), ("xor", "i1"), ("or", "i1"), ("max", "i32")]
)
def test_a_reduction_that_no_collective_does_costs_what_is_written_in_its_place(
    kind: str, dtype: str, rows: int
) -> None:
    """Bitwise ones of integers, for which XLA has none: devices exchange what they have, shards of it where they can."""
    start = {"and": -1, "xor": 0, "or": 0, "max": -(2**31)}[kind]
    literal, op = {"i1": "false"}.get(dtype, start), {"max": "maximum"}.get(kind, kind)
    text = f"""sdy.mesh @mesh = <["a"=4]>
        func.func @main(%a: tensor<{rows}x8x{dtype}> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"a"}}]>}})
            -> tensor<{rows}x{dtype}> {{
          %c = stablehlo.constant dense<{literal}> : tensor<{dtype}>
          %0 = stablehlo.reduce(%a init: %c) applies stablehlo.{op} across dimensions = [1]
            : (tensor<{rows}x8x{dtype}>, tensor<{dtype}>) -> tensor<{rows}x{dtype}>
          return %0 : tensor<{rows}x{dtype}>
        }}"""
    mesh = Mesh(a=4)
    partial, size = TensorSharding.of(mesh, [[]], partial=["a"], kind=kind), 1 if dtype == "i1" else 4
    with Session(hardware=BYTES):
        cost = plan((rows,), size, partial, TensorSharding.of(mesh, [[]]), dtype=dtype).cost
        total = summarize(collectives(localize(materialize(propagate(read(load_module(text)))).graph))).total
    is_gathered = (dtype == "i32" and kind != "max") or kind == "xor"
    assert cost.bytes_sent == rows * size * (3 if is_gathered and rows % 4 else 1.5)
    assert total.static == cost.starts
    assert total.static_bytes == pytest.approx(cost.bytes_sent)
