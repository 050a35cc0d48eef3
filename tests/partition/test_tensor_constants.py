"""Constant tensors of `arith`: every device makes its part of one, and nothing is sliced that one element tells."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read
from shardwright.partition import localize, materialize
from shardwright.partition.tensor_constants import as_of_arith, with_tensor_constants
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case

_TEXT = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}]>}}, %n: tensor<i32>)
    -> tensor<8x8xf32> {{
  %c = arith.constant {value} : tensor<8x8xf32>
  %0 = stablehlo.add %a, %c : tensor<8x8xf32>
  %z = arith.constant dense<0> : tensor<i32>
  %i = arith.constant 3 : i64
  %k = stablehlo.compare GT, %n, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %1 = "stablehlo.if"(%k) ({{
    %d = arith.constant dense<3.0> : tensor<8x8xf32>
    %e = stablehlo.multiply %0, %d : tensor<8x8xf32>
    stablehlo.return %e : tensor<8x8xf32>
  }}, {{
    stablehlo.return %0 : tensor<8x8xf32>
  }}) : (tensor<i1>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}}
"""
_ROWS = "dense<[" + ", ".join(str([float(8 * row + column) for column in range(8)]) for row in range(8)) + "]>"


def local(value: str) -> Graph:
    return localize(materialize(propagate(read(load_module(_TEXT.format(value=value))))).graph)


@pytest.mark.parametrize("value", ["dense<2.0>", _ROWS])
def test_programs_with_them_compute_what_one_device_does(value: str) -> None:
    case = make_case(_TEXT.format(value=value), seed=0)
    assert_equal(value[:12], case, *try_jobs([case.unsharded, case.local]))


def test_one_element_repeated_is_so_on_each_device() -> None:
    made = [op.signature for op in local("dense<2.0>").walk()]
    constants = {str(one.results[0]) for one in made if one.name == "stablehlo.constant"}
    assert constants == {"tensor<4x2xf32>", "tensor<i32>"}
    assert not any(one.name == "stablehlo.dynamic_slice" for one in made)


def test_of_others_a_device_takes_its_part() -> None:
    names = [op.name for op in local(_ROWS).walk()]
    assert names.count("stablehlo.dynamic_slice") == 1


def test_what_is_no_tensor_stays_and_all_goes_back() -> None:
    graph = read(load_module(_TEXT.format(value="dense<2.0>")))
    made = with_tensor_constants(graph)
    names = [op.name for op in made.walk()]
    assert (names.count("arith.constant"), names.count("stablehlo.constant")) == (1, 3)
    again = as_of_arith(made)
    assert [op.name for op in again.walk()] == [op.name for op in graph.walk()]
    assert [op.signature.text("value") for op in again.walk()] == [op.signature.text("value") for op in graph.walk()]
