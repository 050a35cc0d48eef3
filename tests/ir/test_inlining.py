"""Functions called more than once: what the second call leaves in the graph is what reading it anew would."""

from __future__ import annotations

from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read

_TEXT = """
func.func private @inner(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8xf32> loc("add")
  %1:2 = stablehlo.optimization_barrier %0, %y : tensor<8xf32>, tensor<8xf32> loc("barrier")
  return %1#0 : tensor<8xf32>
}
func.func private @outer(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32> loc("negate")
  %1 = call @inner(%0, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("deep")
  return %1 : tensor<8xf32>
}
func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  CALLS
}
"""
_TYPE = "(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>"


def _graph(*calls: tuple[str, str]) -> Graph:
    """A program of calls one after the other: the function and its operands; the results are `%0`, `%1`, …."""
    lines = [
        f'%{number} = call @{function}({operands}) : {_TYPE} loc("call{number}")'
        for number, (function, operands) in enumerate(calls)
    ]
    lines.append(f"return %{len(calls) - 1} : tensor<8xf32>")
    return read(load_module(_TEXT.replace("CALLS", "\n  ".join(lines))))


def _ops(graph: Graph) -> list[str]:
    return [repr(op) for op in graph.walk()]


def test_a_second_call_makes_values_of_its_own() -> None:
    graph = _graph(("inner", "%a, %b"), ("inner", "%0, %a"))
    assert _ops(graph)[:4] == [
        "%2 = stablehlo.add(%0, %1)",
        "%3, %4 = stablehlo.optimization_barrier(%2, %1)",
        "%5 = stablehlo.add(%3, %0)",
        "%6, %7 = stablehlo.optimization_barrier(%5, %0)",
    ]


def test_a_function_first_called_with_one_value_twice_keeps_its_arguments_apart() -> None:
    graph = _graph(("inner", "%a, %a"), ("inner", "%0, %b"))
    assert _ops(graph)[2] == "%5 = stablehlo.add(%3, %1)"
    assert _ops(graph)[3] == "%6, %7 = stablehlo.optimization_barrier(%5, %1)"


def test_every_call_is_located_where_it_is_called_from() -> None:
    graph = _graph(("inner", "%a, %b"), ("outer", "%a, %b"), ("outer", "%1, %b"))
    places = {
        (op.name.removeprefix("stablehlo."), str(graph.locations.handle(op.location)))
        for op in graph.walk()
        if op.name in ("stablehlo.add", "stablehlo.negate")
    }
    assert places == {
        ("add", 'loc(callsite("add" at "call0"))'),
        ("negate", 'loc(callsite("negate" at "call1"))'),
        ("add", 'loc(callsite("add" at callsite("deep" at "call1")))'),
        ("negate", 'loc(callsite("negate" at "call2"))'),
        ("add", 'loc(callsite("add" at callsite("deep" at "call2")))'),
    }
