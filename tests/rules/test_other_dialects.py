"""Ops of `tosa` and `linalg` in their generic form, which this MLIR does not know: by their names, and by their maps."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError

MESH = 'sdy.mesh @m = <["x"=2, "y"=4]>\n'


def split(axes: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding<@m, [{axes}]>}}"


def matmul(attributes: str, body: str = "") -> str:
    """A product of `linalg` whose operands are split."""
    segments = "operandSegmentSizes = array<i32: 2, 1>"
    maps = ", ".join(f"affine_map<(i, j, k) -> ({map})>" for map in ("i, k", "k, j", "i, j"))
    return f"""{MESH}
    func.func @main(%a: tensor<8x16xf32> {split('{"x"}, {}')}, %b: tensor<16x32xf32> {split('{}, {"y"}')},
                    %c: tensor<8x32xf32>) -> tensor<8x32xf32> {{
      %0 = "linalg.matmul"(%a, %b, %c) <{{{segments}}}> ({{
      ^bb0(%p: f32, %q: f32, %r: f32):
        {body}
        %m = "arith.mulf"(%p, %q) <{{fastmath = #arith.fastmath<none>}}> : (f32, f32) -> f32
        %s = "arith.addf"(%r, %m) <{{fastmath = #arith.fastmath<none>}}> : (f32, f32) -> f32
        "linalg.yield"(%s) : (f32) -> ()
      }}) {{indexing_maps = [{maps}]{attributes}}}
        : (tensor<8x16xf32>, tensor<16x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
      return %0 : tensor<8x32xf32>
    }}
    """


@pytest.mark.parametrize("attributes", ["", ', iterator_types = ["parallel", "parallel", "reduction"]'])
def test_a_named_op_of_linalg_is_split_by_its_maps(attributes: str) -> None:
    spmd = sw.load(matmul(attributes)).plan().partition()
    assert repr(spmd.plan.shardings["result0"]) == "[{x}, {y}]"
    assert not spmd.traffic.total.executed_bytes
    local = spmd.module("local")
    assert "(tensor<4x16xf32>, tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>" in local
    assert "arith.mulf" in local
    assert "indexing_maps = [#map, #map1, #map2]" in local


def test_a_loop_whose_step_the_body_asks_for_is_whole() -> None:
    """The row of a shard's first row is not 0."""
    index = '%n = "linalg.index"() <{dim = 0 : i64}> : () -> index'
    spmd = sw.load(matmul("", index)).plan().partition(effort="fast")
    assert "(tensor<8x16xf32>, tensor<16x4xf32>, tensor<8x4xf32>)" in spmd.module("local")


def test_a_body_that_reads_what_stands_outside_is_propagated_through_and_not_partitioned() -> None:
    captured = '%n = "arith.addf"(%p, %outer) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32'
    constant = '%outer = "arith.constant"() <{value = 1.0 : f32}> : () -> f32\n      %0 = "linalg'
    plan = sw.load(matmul("", captured).replace('%0 = "linalg', constant)).plan()
    assert repr(plan.shardings["result0"]) == "[{x}, {y}]"
    with pytest.raises(ShardingError, match=r"linalg\.matmul is not known"):
        plan.partition()


def tosa(op: str, operands: str, result: str) -> sw.Plan:
    """An op on operands that are written as `shape: axes`."""
    types, lying = zip(*[one.split(": ") for one in operands.split("; ")], strict=True)
    names = [f"%a{number}" for number in range(len(types))]
    given = zip(names, types, lying, strict=True)
    arguments = ", ".join(f"{name}: tensor<{type}> {split(axes)}" for name, type, axes in given)
    values = ", ".join(names)
    listed = ", ".join(f"tensor<{type}>" for type in types)
    return sw.load(f"""{MESH}
    func.func @main({arguments}) -> tensor<{result}> {{
      %0 = "tosa.{op}"({values}) : ({listed}) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}
    """).plan()


@pytest.mark.parametrize(
    ("op", "operands", "result", "lies"),
    [
        ("tanh", '8x4xf32: {"x"}, {}', "8x4xf32", "[{x}, {}]"),
        ("add", '8x4xf32: {"x"}, {}; 1x4xf32: {}, {"y"}', "8x4xf32", "[{x}, {y}]"),
        ("mul", '8x4xf32: {"x"}, {}; 8x4xf32: {}, {}; 1xi8: {}', "8x4xf32", "[{x}, {}]"),
        ("select", '8x4xi1: {"x"}, {}; 8x1xf32: {}, {}; 8x4xf32: {}, {"y"}', "8x4xf32", "[{x}, {y}]"),
        ("greater_equal", '8x4xf32: {}, {"y"}; 8x4xf32: {}, {}', "8x4xi1", "[{}, {y}]"),
        ("matmul", '2x8x16xf32: {}, {"x"}, {}; 2x16x32xf32: {}, {}, {"y"}', "2x8x32xf32", "[{}, {x}, {y}]"),
        (
            "matmul",
            '2x8x16xi8: {}, {"x"}, {}; 2x16x32xi8: {}, {}, {"y"}; 1xi8: {}; 1xi8: {}',
            "2x8x32xi32",
            "[{}, {x}, {y}]",
        ),
    ],
)
def test_named_ops_of_tosa(op: str, operands: str, result: str, lies: str) -> None:
    plan = tosa(op, operands, result)
    assert repr(plan.shardings["result0"]) == lies


def test_contracted_dimensions_of_tosa_are_summed() -> None:
    plan = tosa("matmul", '2x8x16xf32: {}, {}, {"x"}; 2x16x32xf32: {}, {"x"}, {}', "2x8x32xf32")
    spmd = plan.partition()
    assert "sdy.all_reduce" in spmd.module("explicit")
    assert not spmd.notes


def test_what_does_not_fit_its_name_has_no_rule() -> None:
    plan = tosa("matmul", '8x16xf32: {"x"}, {}; 16x32xf32: {}, {"y"}', "8x32xf32")
    assert repr(plan.shardings["result0"]) == "[{}, {}]"
