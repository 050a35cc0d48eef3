"""The mesh RFC's completion where annotations contradict each other: required ones are reported, hints are dropped."""

from __future__ import annotations

import re

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.program import load
from shardwright.propagation import Recording
from shardwright.propagation.rfc.completion import complete
from shardwright.propagation.rfc.derivation import Dropped

_HEAD = 'sdy.mesh @m = <["x"=2, "y"=2]>\nsdy.mesh @n = <["z"=4]>\n'
_V, _M = "tensor<8xf32>", "tensor<8x8xf32>"


def _per_value(*shardings: str) -> str:
    return f"{{sdy.sharding = #sdy.sharding_per_value<[{', '.join(shardings)}]>}}"


def _constraint(name: str, value: str, sharding: str, type: str = _V) -> str:
    return f"{name} = sdy.sharding_constraint {value} {sharding} : {type}"


_X, _Y, _WHOLE, _Z = '<@m, [{"x"}]>', '<@m, [{"y"}]>', "<@m, [{}]>", '<@n, [{"z"}]>'

_SORT = f"""func.func @main(%a: {_V}, %b: {_V}) -> ({_V}, {_V}) {{
  %0:2 = "stablehlo.sort"(%a, %b) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
      %t = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
  }}) {{shardings}} : ({_V}, {_V}) -> ({_V}, {_V})
  return %0#0, %0#1 : {_V}, {_V}
}}"""
_WHILE = f"""func.func @main(%a: {_V}, %i: tensor<i32>) -> {_V} {{
  {_constraint("%0", "%a", _X)}
  %r:2 = stablehlo.while(%v = %0, %k = %i) : {_V}, tensor<i32> attributes {_per_value(_Y, "<@m, []>")} cond {{
    %p = stablehlo.compare LT, %k, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    stablehlo.return %v, %k : {_V}, tensor<i32>
  }}
  return %r#0 : {_V}
}}"""


def _unary(first: str, second: str, op: str = "tanh", type: str = _V) -> str:
    return f"""func.func @main(%a: {type}) -> {type} {{
  {_constraint("%0", "%a", first, type)}
  %1 = stablehlo.{op} %0 {_per_value(second)} : {type}
  return %1 : {type}
}}"""


def _binary(op: str, first: str, second: str, type: str, signature: str) -> str:
    return f"""func.func @main(%a: {type}, %b: {type}) -> {type} {{
  {_constraint("%0", "%a", first, type)}
  {_constraint("%1", "%b", second, type)}
  %2 = stablehlo.{op} %0, %1{signature}
  return %2 : {type}
}}"""


def _unread(first: str, second: str) -> str:
    return f"""func.func @main(%a: {_V}) -> {_V} {{
  %0 = stablehlo.tanh %a : {_V}
  {_constraint("%1", "%0", first)}
  {_constraint("%2", "%0", second)}
  return %0 : {_V}
}}"""


_DOT = f", contracting_dims = [1] x [0] : ({_M}, {_M}) -> {_M}"
_TRANSPOSE = f"""func.func @main(%a: {_M}) -> {_M} {{
  {_constraint("%0", "%a", '<@m, [{"x"}, {}]>', _M)}
  %1 = stablehlo.transpose %0, dims = [1, 0] {_per_value('<@m, [{"x"}, {}]>')} : ({_M}) -> {_M}
  return %1 : {_M}
}}"""

_CONTRADICTIONS = {
    "an operand and the result": (_unary(_X, _Y), "operand 0 of stablehlo.tanh [{x}]", (4, 5)),
    "an operand and a result to stay whole": (_unary(_X, _WHOLE), "result 0 of stablehlo.tanh [{}]", (4, 5)),
    "two operands": (_binary("add", _X, _Y, _V, f" : {_V}"), "operand 1 of stablehlo.add [{y}]", (4, 5)),
    "two loops, one axis": (
        _binary("dot_general", '<@m, [{"x"}, {}]>', '<@m, [{}, {"x"}]>', _M, _DOT),
        "operand 1 of stablehlo.dot_general [{}, {x}]",
        (4, 5),
    ),
    "a contracted loop": (
        _binary("dot_general", '<@m, [{}, {"x"}]>', '<@m, [{"y"}, {}]>', _M, _DOT),
        "operand 0 of stablehlo.dot_general [{}, {x}]",
        (4, 5),
    ),
    "through a transposition": (_TRANSPOSE, "operand 0 of stablehlo.transpose [{x}, {}]", (4, 5)),
    "what a loop begins with": (_WHILE, "operand 0 of stablehlo.while [{x}]", (4, 5)),
    "two meshes": (_unary(_X, _Z), "result 0 of stablehlo.tanh [{z}]", (4, 5)),
    "one value, by constraints that nobody reads": (_unread(_X, _Y), "a value is required to be [{x}] and [{y}]", (5, 6)),
    "one value, twice the same op": (
        _SORT.replace("dimension = 0", "dimension = 1").replace(_V, _M).replace("{shardings}", _per_value(
            '<@m, [{"x"}, {}]>', '<@m, [{"y"}, {}]>'
        )),
        "result 1 of stablehlo.sort [{y}, {}]",
        (4, 4),
    ),
}  # fmt: skip


def _completed(text: str) -> tuple[Graph, list[Dropped]]:
    recording = Recording()
    return complete(load(_HEAD + text).graph, recording), recording.dropped


def _values(graph: Graph) -> list[str]:
    return [f"{op.name.split('.')[1]} {graph.shardings[op.results[0]]!r}" for op in graph.main.block.ops if op.results]


@pytest.mark.parametrize("case", _CONTRADICTIONS)
def test_required_annotations_that_cannot_both_hold_are_both_named_with_their_lines(case: str) -> None:
    text, named, lines = _CONTRADICTIONS[case]
    with pytest.raises(ShardingError) as caught:
        _completed(text)
    diagnostic = caught.value.diagnostic
    assert named in diagnostic.message
    assert diagnostic.op
    assert diagnostic.remedy
    where = re.findall(r"-:(\d+)", f"{diagnostic.location} {diagnostic.cause}")
    assert {str(line) for line in lines} <= set(where)


@pytest.mark.parametrize("case", [name for name in _CONTRADICTIONS if name != "an operand and a result to stay whole"])
def test_a_hint_in_place_of_either_is_dropped(case: str) -> None:
    """Opened, the second annotation gives way: what was refused before is completed."""
    text, _, lines = _CONTRADICTIONS[case]
    *_, last = re.finditer(r"<@\w, \[\{.*?\]>", text)
    open_dims = re.sub(r'\{("\w")?\}', lambda dim: f"{{{dim[1]}, ?}}" if dim[1] else "{?}", last[0])
    graph, dropped = _completed(text[: last.start()] + open_dims + text[last.end() :])
    assert None not in [sharding for sharding, type in zip(graph.shardings, graph.types, strict=True) if type.is_tensor]
    assert [one.hint.line for one in dropped] == ([f"-:{lines[1]}"] if "nobody reads" not in case else [])


def test_a_partial_sum_of_what_sums_nothing_is_refused() -> None:
    with pytest.raises(
        ShardingError, match=r"result 0 of stablehlo\.tanh \[\{\}\] partial=sum\{x\} cannot be"
    ) as caught:
        _completed(_unary(_WHOLE, '<@m, [{}], unreduced={"x"}>'))
    assert caught.value.diagnostic.location == "-:5"
    graph, (dropped,) = _completed(_unary(_X, '<@m, [{"x", ?}], unreduced={"y"}>'))
    assert _values(graph) == ["tanh [{x}]"]
    assert str(dropped).endswith(
        "is dropped: the op has no loop that it sums over, and partial sums do not pass through it"
    )


def test_a_hint_that_lost_says_what_it_gave_way_to() -> None:
    graph, (dropped,) = _completed(_unary(_X, '<@m, [{"y", ?}]>'))
    assert _values(graph) == ["tanh [{x}]"]
    assert str(dropped) == (
        "-:5: the hint for result 0 of stablehlo.tanh [{y}] is dropped: "
        "it contradicts operand 0 of stablehlo.tanh [{x}] at -:4"
    )


def test_of_two_hints_the_result_s_wins() -> None:
    graph, (dropped,) = _completed(_unary('<@m, [{"x", ?}]>', '<@m, [{"y", ?}]>'))
    assert _values(graph) == ["tanh [{y}]"]
    assert dropped.hint.where == "operand 0 of stablehlo.tanh"
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{y}]"]


def test_of_a_hint_is_kept_what_contradicts_nothing() -> None:
    """The left operand requires `i` along `x` and `k` whole: the hint for `k` is lost, that for `j` along `y` is not."""
    graph, (dropped,) = _completed(_binary("dot_general", '<@m, [{"x"}, {}]>', '<@m, [{"x", ?}, {"y", ?}]>', _M, _DOT))
    assert _values(graph) == ["dot_general [{x}, {y}]"]
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{x}, {}]", "[{}, {y}]"]
    assert dropped.hint.where == "operand 1 of stablehlo.dot_general"


def test_a_hint_that_wants_the_same_takes_nothing_from_what_is_required() -> None:
    """Two devices share three elements, where that is required; a hint alone gives way to what divides."""
    type = "tensor<3xf32>"
    for hint in ('<@m, [{"x", ?}]>', "<@m, [{?}]>"):
        graph, dropped = _completed(_binary("add", _X, hint, type, f" : {type}"))
        assert "add [{x}]" in _values(graph)
        assert not dropped


def test_open_dimensions_that_nothing_splits_say_nothing() -> None:
    graph, dropped = _completed(_unary(_X, "<@m, [{?}]>"))
    assert _values(graph) == ["tanh [{x}]"]
    assert not dropped
