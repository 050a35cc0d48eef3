"""Rules as loops, and loops as rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwright as sw
import shardwright.rules.families
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.signature import Signature
from shardwright.notation.modules import read
from shardwright.rules.loops import indexing_maps, iterator_types, loops
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule
from shardwright.rules.self_described import interface_rule
from tests.rules.corpus import MAKERS, instances, program

DOT = """%1 = "stablehlo.dot_general"(%0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<
  lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>}>
  : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>"""
"""The first product of the RFC's two-dimensional weight-stationary MLP."""


def is_told(signature: Signature, rule: ShardingRule) -> bool:
    """Whether loops tell all of a rule: each dimension is one of them, and none needs rows of other shards."""
    tensors = zip((*signature.operands, *signature.results), (*rule.operands, *rule.results), strict=True)
    dims = [pair for type, of in tensors for pair in zip(type.dims, of, strict=True)]
    alone = all(len(of) == 1 and rule.sizes[of[0]] == size for size, of in dims)
    repeated = any(len(of) != len(set(of)) for of in (*rule.operands, *rule.results))
    results = {factor for of in rule.results for dim in of for factor in dim}
    summed = all(kind in ("parallel", "reduction_sum", "invalid") for kind in iterator_types(signature, rule))
    free = frozenset(range(len(rule.sizes))) - rule.reduction - rule.need_replication
    return alone and summed and not repeated and not rule.permutation and free <= results


def as_read(signature: Signature, rule: ShardingRule) -> ShardingRule | None:
    """The rule of an op that says the same loops of itself."""
    maps = ", ".join(f"affine_map<{map}>" for map in indexing_maps(rule))
    types = ", ".join(f'"{kind}"' for kind in iterator_types(signature, rule))
    described = Signature("my.op", (), signature.operands, signature.results)
    return interface_rule(described.replace(iterator_types=f"[{types}]", indexing_maps=f"[{maps}]"))


def in_order(rule: ShardingRule) -> ShardingRule:
    """A rule whose factors are numbered as its loops are."""
    number = {factor: place for place, factor in enumerate(loops(rule))}
    operands, results = (
        tuple([tuple([tuple([number[factor] for factor in dim]) for dim in of]) for of in side])
        for side in (rule.operands, rule.results)
    )
    sizes = tuple([rule.sizes[factor] for factor in loops(rule)])
    reduction, whole = (frozenset(map(number.__getitem__, some)) for some in (rule.reduction, rule.need_replication))
    return ShardingRule(sizes, operands, results, reduction - whole, whole)


def test_loops_that_a_rule_has_give_it_back() -> None:
    told: set[str] = set()
    for name in MAKERS:
        some = list(instances(name, 6))
        for op in read(load_module(program(some))).main.block.ops:
            rule = rule_for(op.signature)
            if rule is not None and op.name == name and is_told(op.signature, rule):
                assert as_read(op.signature, rule) == in_order(rule), op.signature
                told.add(name)
    assert len(told) > len(MAKERS) // 2


def axes(annotations: tuple[sw.TensorSharding, ...]) -> list[list[list[str]]]:
    return [[[axis.name for axis in dim] for dim in one.axes] for one in annotations]


def test_the_rfcs_two_dimensional_product() -> None:
    """Document 002: the loops of the op, the option that its result's annotation gives, and its operands by that."""
    mesh = sw.Mesh(a=2, b=2, c=2)
    interface = sw.interface(DOT)
    assert interface.loop_iterator_types == ("parallel", "parallel", "parallel", "reduction_sum")
    assert interface.indexing_maps == (
        "(d0, d1, d2, d3) -> (d0, d1, d3)",
        "(d0, d1, d2, d3) -> (d3, d2)",
        "(d0, d1, d2, d3) -> (d0, d1, d2)",
    )
    result = sw.TensorSharding.of(mesh, [[], [], ["b", "c"]], partial=["a"])
    option = interface.sharding_option([None, None, result])
    assert [[axis.name for axis in of] for of in option] == [[], [], ["b", "c"], ["a"]]
    lhs, rhs, out = interface.sharding_annotations(option, mesh)
    assert axes((lhs, rhs, out)) == [[[], [], ["a"]], [["a"], ["b", "c"]], [[], [], ["b", "c"]]]
    assert out.partial_axes == (mesh.axis("a"),)


def test_the_rfcs_two_dimensional_product_is_materialized_as_it_is_there() -> None:
    """Document 002: the product gathers its operand along axes 1 and 2, and what it gives is reduced along axis 0."""
    mesh = sw.Mesh(a=2, b=2, c=2)
    annotations = [
        sw.TensorSharding.of(mesh, [[], [], ["a", "b", "c"]]),
        sw.TensorSharding.of(mesh, [["a"], ["b", "c"]]),
        sw.TensorSharding.of(mesh, [[], [], ["b", "c"]]),
    ]
    made = sw.interface(DOT).materialize(annotations, [[], [], ["b", "c"], ["a"]])
    assert str(made) == "operand 0: all_gather\nresult 0: all_reduce"
    scattered = sw.TensorSharding.of(mesh, [[], [], ["b", "c", "a"]])
    made = sw.interface(DOT).materialize([*annotations[:2], scattered], [[], [], ["b", "c"], ["a"]])
    assert str(made) == "operand 0: all_gather\nresult 0: reduce_scatter"
    # 2·4·8 f32 over 8 devices, 8 of its 64 elements each: 3 of 4 parts of 32 B come in by the ring
    assert made.operands[0].cost.bytes_sent == 3 * 32


def test_an_op_that_lies_as_its_values_do_sends_nothing() -> None:
    interface, mesh = sw.interface("stablehlo.tanh %a : tensor<8xf32>"), sw.Mesh(x=2)
    split = sw.TensorSharding.of(mesh, [["x"]])
    assert str(interface.materialize([split, None])) == "nothing is sent"
    assert str(interface.materialize([split, sw.TensorSharding.of(mesh, [[]])], [["x"]])) == "result 0: all_gather"
    with pytest.raises(sw.ShardingError, match="no tensor of the op is annotated"):
        interface.materialize([None, None])


@given(st.integers(0, 10_000))
def test_annotations_by_an_option_ask_for_it(seed: int) -> None:
    rng, mesh = random.Random(seed), sw.Mesh(a=2, b=2, c=2)
    option: list[list[str]] = [[], [], [], []]
    for name in rng.sample("abc", 3):
        rng.choice(option).append(name)
    interface = sw.interface(DOT)
    made = interface.sharding_annotations(option, mesh)
    read_back = interface.sharding_option(made)
    assert [[axis.name for axis in of] for of in read_back] == option
    assert interface.sharding_annotations(read_back, mesh) == made


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ([["x"], []], "contradict each other"),
        ([["x"], ["x"], []], "2 annotations"),
        ([["x"], ["x", "y"]], "contradict each other"),
    ],
)
def test_what_contradicts_itself_is_no_option(annotations: list[list[str]], message: str) -> None:
    mesh, op = sw.Mesh(x=2, y=2), "stablehlo.tanh %a : tensor<8xf32>"
    given = [sw.TensorSharding.of(mesh, [dim]) for dim in annotations]
    if message.startswith("2"):
        given = given[:1]
        message = "1 annotations for 2 tensors"
    with pytest.raises(ShardingError, match=message):
        sw.interface(op).sharding_option(given)


def test_an_option_of_too_many_loops_or_with_an_axis_twice_is_refused() -> None:
    interface, mesh = sw.interface("stablehlo.tanh %a : tensor<8xf32>"), sw.Mesh(x=2)
    options: list[list[list[str]]] = [[["x"], ["x"]], [["x", "x"]], [[], []]]
    for option in options:
        with pytest.raises(ShardingError, match="is not an option"):
            interface.sharding_annotations(option, mesh)
    with pytest.raises(ShardingError, match="unknown mesh axis 'y'"):
        interface.sharding_annotations([["y"]], mesh)


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("stablehlo.add %a, %a : tensor<4xf32>", ("parallel",)),
        ("%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>", ("parallel", "parallel")),
        ("stablehlo.reshape %r#1 : (tensor<4x8xf32>) -> tensor<32xf32>", ("parallel", "parallel")),
        ("stablehlo.slice %x [0:2, 0:8] : (tensor<4x8xf32>) -> tensor<2x8xf32>", ("window", "parallel")),
        ("stablehlo.cholesky %x, lower = true : tensor<4x8x8xf32>", ("parallel", "invalid", "invalid")),
        (
            "stablehlo.reduce(%a init: %b) applies stablehlo.maximum across dimensions = [0] "
            ": (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>",
            ("parallel", "reduction_max"),
        ),
    ],
)
def test_an_op_is_read_from_its_text(text: str, types: tuple[str, ...]) -> None:
    assert sw.interface(text).loop_iterator_types == types


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not the text of one op"),
        ("stablehlo.add %a, %b", "not the text of one op"),
        ("stablehlo.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>", "3 operands and 2 types"),
        ("stablehlo.nothing %a : tensor<4xf32>", "nothing"),
        ("stablehlo.constant dense<1.0> : tensor<4xf32>", "no loops"),
    ],
)
def test_what_is_no_op_with_loops_is_refused(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        sw.interface(text)
