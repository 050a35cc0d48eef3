"""A sum of what is a sum over devices already: each device sums its contributions, and fewer of them are reduced."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw

MESH = {"x": 4, "y": 2}


def program(body: str, type: str = "f32", initial: str = "add") -> str:
    return f"""
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(
    %a: tensor<8x16x{type}> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
    %b: tensor<16x6x{type}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}, %i: tensor<{type}>) -> tensor<8x{type}> {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16x{type}>, tensor<16x6x{type}>) -> tensor<8x6x{type}>
  {body}
  %1 = stablehlo.reduce(%0 init: %i) applies stablehlo.{initial} across dimensions = [1]
      : (tensor<8x6x{type}>, tensor<{type}>) -> tensor<8x{type}>
  return %1 : tensor<8x{type}>
}}"""


def of(text: str, optimize: str = "off") -> sw.Spmd:
    return sw.load(text).plan().partition(optimize=optimize)


@pytest.mark.parametrize("optimize", ["off", "all"])
@pytest.mark.parametrize("initial", [0.0, 5.0])
def test_rows_are_summed_before_they_are_reduced_and_the_initial_value_counts_once(
    optimize: str, initial: float
) -> None:
    spmd = of(program(""), optimize)
    assert spmd.outcome.bytes_sent == 8 * 4 * 2 * 7 / 8  # one all_reduce of eight sums over eight devices
    assert spmd.outcome.collectives == 1
    assert spmd.verify({"i": np.float32(initial)}).ok


def test_another_reader_needs_the_sum_itself() -> None:
    text = program("%t = stablehlo.tanh %0 : tensor<8x6xf32>").replace(
        "return %1 : tensor<8xf32>", "return %1, %t : tensor<8xf32>, tensor<8x6xf32>"
    )
    spmd = of(text.replace("-> tensor<8xf32> {\n", "-> (tensor<8xf32>, tensor<8x6xf32>) {\n"))
    assert spmd.verify({"i": np.float32(5)}).ok


@pytest.mark.parametrize(("type", "combined"), [("i32", "add"), ("f32", "maximum")])
def test_integers_and_other_reductions_take_whole_sums(type: str, combined: str) -> None:
    spmd = of(program("", type, combined))
    assert spmd.outcome.bytes_sent > 8 * 4 * 2 * 7 / 8
    assert spmd.verify().ok


def test_a_collective_written_by_hand_goes_behind_the_sum_with_its_initial_value_once() -> None:
    text = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<f32>) -> tensor<8xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x6xf32>) -> tensor<8x6xf32>
  %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}, {}]> : tensor<8x6xf32>
  %2 = stablehlo.reduce(%1 init: %i) applies stablehlo.add across dimensions = [1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}"""
    before, after = of(text), of(text, "all")
    assert (before.outcome.bytes_sent, after.outcome.bytes_sent) == (8 * 6 * 4 * 2 * 3 / 4, 8 * 4 * 2 * 3 / 4)
    assert after.verify({"i": np.float32(5)}).ok
