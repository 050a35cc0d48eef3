"""The iterations of ops that have more than the loops of their factors, or fewer."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module
from shardwright.notation import modules
from shardwright.rules.iterations import iterations_of
from shardwright.rules.registry import rule_for

IMAGE = "tensor<2x8x8x4xf32>"
CONVOLUTION = (
    "stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
    "window = {{pad = {pad}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}"
)


def iterations(op: str, operands: str, results: str, arguments: str) -> int:
    """Of an op, in a function of these arguments."""
    text = f"func.func @main({arguments}) -> {results} {{\n%r = {op} : ({operands}) -> {results}\nreturn %r : {results}\n}}"
    graph = modules.read(load_module(text, "test"))
    signature = graph.main.block.ops[-2].signature
    rule = rule_for(signature)
    assert rule is not None
    return iterations_of(signature, rule)


@pytest.mark.parametrize(("groups", "inputs"), [(1, 4), (4, 1)])
def test_a_convolution_multiplies_a_kernel_for_each_element_of_its_result(groups: int, inputs: int) -> None:
    kernel = f"tensor<3x3x{inputs}x16xf32>"
    op = CONVOLUTION.format(pad="[[1, 1], [1, 1]]", groups=groups)
    made = iterations(op, f"{IMAGE}, {kernel}", "tensor<2x8x8x16xf32>", f"%x: {IMAGE}, %w: {kernel}")
    assert made == 2 * 8 * 8 * 16 * 9 * inputs


def test_a_reduction_of_windows_goes_through_each() -> None:
    op = """"stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 2, 3, 1>,
      window_strides = array<i64: 1, 2, 1, 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      })"""
    made = iterations(op, f"{IMAGE}, tensor<f32>", "tensor<2x4x6x4xf32>", f"%x: {IMAGE}, %i: tensor<f32>")
    assert made == 2 * 4 * 6 * 4 * 6


def test_a_call_whose_tensors_have_factors_of_their_own_goes_through_them_and_not_through_all_pairs() -> None:
    """The rule that JAX states of a triangular solve, whose matrices nothing is known of."""
    rule = "#sdy.op_sharding_rule<([i, j, k], [i, l, m])->([i, n, o]) {i=6, j=8, k=8, l=8, m=4, n=8, o=4}, custom>"
    op = f"stablehlo.custom_call @solve(%x, %y) {{sdy.sharding_rule = {rule}}}"
    square, right = "tensor<6x8x8xf32>", "tensor<6x8x4xf32>"
    assert iterations(op, f"{square}, {right}", right, f"%x: {square}, %y: {right}") == 6 * 8 * 8


TABLE, ROWS, WORDS = "tensor<1000x8xf32>", "tensor<4x8xf32>", "tensor<4x1xi32>"
LOOKED_UP = """"stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
  collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}>"""
SCATTERED = """"stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
  inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""


@pytest.mark.parametrize(
    ("op", "operands", "result", "arguments"),
    [
        (LOOKED_UP, f"{TABLE}, {WORDS}", ROWS, f"%x: {TABLE}, %i: {WORDS}"),
        (SCATTERED, f"{TABLE}, {WORDS}, {ROWS}", TABLE, f"%x: {TABLE}, %i: {WORDS}, %u: {ROWS}"),
        (
            "stablehlo.dynamic_slice %x, %i, %i, sizes = [4, 8]",
            f"{TABLE}, tensor<i32>, tensor<i32>",
            ROWS,
            f"%x: {TABLE}, %i: tensor<i32>",
        ),
        (
            "stablehlo.dynamic_update_slice %x, %u, %i, %i",
            f"{TABLE}, {ROWS}, tensor<i32>, tensor<i32>",
            TABLE,
            f"%x: {TABLE}, %u: {ROWS}, %i: tensor<i32>",
        ),
    ],
    ids=["gather", "scatter", "dynamic_slice", "dynamic_update_slice"],
)
def test_what_looks_up_or_puts_rows_goes_through_these_and_not_the_table(
    op: str, operands: str, result: str, arguments: str
) -> None:
    assert iterations(op, operands, result, arguments) == 4 * 8


def test_the_loops_of_any_other_op_are_its_factors() -> None:
    made = iterations("stablehlo.dot %x, %y", "tensor<4x8xf32>, tensor<8x16xf32>", "tensor<4x16xf32>",
                      "%x: tensor<4x8xf32>, %y: tensor<8x16xf32>")  # fmt: skip
    assert made == 4 * 8 * 16
