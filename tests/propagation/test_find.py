"""Finding values by what users call them."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read, write
from shardwright.propagation import find_value

_TEXT = """#one = loc("model.py":7:3)
#two = loc("step"(#one))
func.func @main(%a: tensor<8xf32> loc("params['w1']"), %b: tensor<8xf32>) -> (tensor<8xf32> {jax.result_info = "out['y']"}) {
  %0 = stablehlo.tanh %a : tensor<8xf32> loc("tanh"(#one))
  %1 = stablehlo.add %0, %b : tensor<8xf32> loc(#two)
  %2 = stablehlo.negate %1 : tensor<8xf32> loc(#two)
  %3:2 = stablehlo.optimization_barrier %2, %1 : tensor<8xf32>, tensor<8xf32> loc("pair"(#one))
  return %3#0 : tensor<8xf32>
}"""


def _graph() -> Graph:
    return read(load_module(_TEXT))


def test_arguments_and_results_by_name() -> None:
    graph = _graph()
    assert find_value(graph, "params/w1") == (graph.main.block.arguments[0],)
    assert find_value(graph, graph.main.result_names[0]) == (~0,)


def test_everything_made_at_a_line() -> None:
    graph = _graph()
    made = tuple(sorted(value for op in graph.walk() for value in op.results))
    assert find_value(graph, "model.py:7") == made


def test_a_location_name_that_one_op_has() -> None:
    graph = _graph()
    ops = graph.main.block.ops
    assert find_value(graph, "tanh") == ops[0].results
    assert find_value(graph, "pair") == ops[3].results


def test_a_location_name_that_several_ops_have_is_ambiguous() -> None:
    with pytest.raises(ShardingError, match="several values are called 'step'"):
        find_value(_graph(), "step")


def test_printed_numbers() -> None:
    graph = _graph()
    ops = graph.main.block.ops
    assert find_value(graph, "%0") == ops[0].results
    assert find_value(graph, "%3#1") == (ops[3].results[1],)
    assert find_value(graph, "%arg1") == (graph.main.block.arguments[1],)
    with pytest.raises(ShardingError, match="no value called '%9'"):
        find_value(graph, "%9")


_LOOP = """func.func @main(%a: tensor<8xf32>, %i: tensor<i32>) -> tensor<8xf32> {
  %0:2 = stablehlo.while(%u = %a, %v = %i) : tensor<8xf32>, tensor<i32> cond {
    %c = stablehlo.compare LT, %v, %v : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = stablehlo.tanh %u : tensor<8xf32>
    %n = stablehlo.negate %t : tensor<8xf32>
    stablehlo.return %n, %v : tensor<8xf32>, tensor<i32>
  }
  return %0#0 : tensor<8xf32>
}"""


def test_printed_numbers_within_regions() -> None:
    graph = read(load_module(_LOOP))
    printed = str(write(graph, shardings=False))
    (line,) = [line for line in printed.splitlines() if "stablehlo.negate" in line]
    (loop, _) = graph.main.block.ops
    assert find_value(graph, line.split(" = ")[0].strip()) == loop.regions[1].ops[1].results


def test_a_number_that_regions_beside_each_other_use_is_ambiguous() -> None:
    graph = read(load_module(_LOOP))
    with pytest.raises(ShardingError, match="several values are called '%1'") as raised:
        find_value(graph, "%1")
    assert "stablehlo.compare at" in raised.value.diagnostic.cause
    assert "stablehlo.tanh at" in raised.value.diagnostic.cause


def test_an_unknown_name_comes_with_close_ones() -> None:
    with pytest.raises(ShardingError, match="params/w1"):
        find_value(_graph(), "param/w1")
