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


def test_a_result_is_told_from_an_argument_of_its_name() -> None:
    text = _TEXT.replace("out['y']", "params['w1']")
    graph = read(load_module(text))
    (result,) = graph.main.result_names
    assert result in graph.main.argument_names
    assert find_value(graph, result) == find_value(graph, f"argument {result}") == (graph.main.block.arguments[0],)
    assert find_value(graph, f"result {result}") == (~0,)


def test_everything_made_at_a_line() -> None:
    graph = _graph()
    made = tuple(sorted(value for op in graph.walk() for value in op.results))
    assert find_value(graph, "model.py:7") == made
    assert find_value(graph, "model.py:7:3") == made


def test_a_location_name_that_one_op_has() -> None:
    graph = _graph()
    ops = graph.main.block.ops
    assert find_value(graph, "tanh") == ops[0].results
    assert find_value(graph, "pair") == ops[3].results


def test_the_last_parts_of_a_location_name_are_enough() -> None:
    graph = read(load_module(_TEXT.replace('loc("tanh"', 'loc("jit(step)/jvp(f g)/tanh"')))
    assert find_value(graph, "tanh") == graph.main.block.ops[0].results
    assert find_value(graph, "jvp(f g)/tanh") == graph.main.block.ops[0].results
    with pytest.raises(ShardingError, match="no value called 'anh'"):
        find_value(graph, "anh")


def test_a_location_name_that_several_ops_have_is_ambiguous() -> None:
    with pytest.raises(ShardingError, match="several values are called 'step'") as raised:
        find_value(_graph(), "step")
    assert raised.value.diagnostic.cause == "%1 (stablehlo.add at model.py:7), %2 (stablehlo.negate at model.py:7)"


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


def test_what_a_loop_carries_has_one_name_in_its_condition_and_its_body() -> None:
    graph = read(load_module(_LOOP))
    loop, _ = graph.main.block.ops
    assert find_value(graph, "%iterArg") == (loop.regions[1].arguments[0],)


_CALL = """func.func private @ffn(%h: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %h : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = func.call @ffn(%a) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = func.call @ffn(%0) : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}"""


def test_the_line_of_a_call_stands_for_what_is_made_there() -> None:
    graph = read(load_module(_CALL, "calls.mlir"), "calls.mlir")
    made = [op.results[0] for op in graph.walk() if op.results]
    assert find_value(graph, "calls.mlir:2") == tuple(made)
    assert [find_value(graph, f"calls.mlir:{line}") for line in (6, 7)] == [(made[0],), (made[1],)]


def _refused(graph: Graph, name: str) -> tuple[str, str]:
    with pytest.raises(ShardingError) as raised:
        find_value(graph, name)
    return raised.value.diagnostic.message, raised.value.diagnostic.cause


def test_a_line_where_nothing_is_made_comes_with_the_nearest() -> None:
    assert _refused(_graph(), "model.py:99999") == ("no value is made at model.py:99999", "the nearest are model.py:7")


def test_another_file_comes_with_those_that_there_are() -> None:
    assert _refused(_graph(), "train.py:7") == ("no value is made at train.py:7", "values are made in model.py")


def test_a_bare_number_is_neither_a_value_nor_an_argument() -> None:
    message, cause = _refused(_graph(), "1")
    assert message == "there is no value called '1'"
    assert "argument 1 is called arg1" in cause
    assert "is called" not in _refused(_graph(), "7")[1]


def test_the_name_of_an_argument_needs_no_percent_sign() -> None:
    assert _refused(_graph(), "%params/w1")[1] == "close to it: params/w1"


@pytest.mark.parametrize("name", ["", " ", "main", "-1", ":", "%", "%#0", "a" * 10_000, "model.py:", "\n"])
def test_what_is_no_name_at_all_is_refused(name: str) -> None:
    message, _ = _refused(_graph(), name)
    assert message.startswith("there is no value called ")
    assert len(message) < 300


def test_an_unknown_name_comes_with_close_ones() -> None:
    with pytest.raises(ShardingError, match="params/w1"):
        find_value(_graph(), "param/w1")
