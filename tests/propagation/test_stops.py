"""Why axes stop: each reason in a program made for it, which is true, for without the named cause the axis comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.propagation import Explanation, History, Recording, explain_values, find_value, propagate


class _Options(TypedDict, total=False):
    strategy: str
    conservative: bool


@dataclass(frozen=True)
class Case:
    """A program in which an axis does not come to a value, and what to change so that it does.

    Attributes:
        reason: Why it does not come.
        arguments: The arguments of `main`.
        body: Its body.
        value: Where the axis does not come.
        cause: Texts of the program to replace, and by what.
        detail: What the explanation names.
        axis: The axis.
        result: The result of `main`.
        options: How to propagate; with the cause out of the way, as usual.
    """

    reason: str
    arguments: str
    body: str
    value: str
    cause: dict[str, str]
    detail: str = ""
    axis: str = "x"
    result: str = "tensor<8x8xf32>"
    options: _Options = field(default_factory=_Options)

    @property
    def text(self) -> str:
        """The program."""
        return (
            'sdy.mesh @mesh = <["x"=2, "y"=2, "z"=3, "w"=4]>\nsdy.mesh @other = <["u"=48]>\n'
            f"func.func @main({self.arguments}) -> ({self.result}) {{\n{self.body}\n}}"
        )


def _argument(name: str, dims: str, type: str = "tensor<8x8xf32>", tail: str = "", mesh: str = "mesh") -> str:
    return f"%{name}: {type} {{sdy.sharding = #sdy.sharding<@{mesh}, [{dims}]{tail}>}}"


def _unary(op: str, type: str = "tensor<8x8xf32>") -> str:
    return f"%0 = {op} : {type}\nreturn %0 : {type}"


def _reshape(source: str, target: str) -> str:
    return f"%0 = stablehlo.reshape %a : ({source}) -> {target}\nreturn %0 : {target}"


_FREE = "%a: tensor<8x8xf32>, "
_X = _argument("a", '{"x"}, {?}') + ", "
_ADD = _unary("stablehlo.add %a, %b")
_RULE = "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}"
_CALL = "%0 = stablehlo.custom_call @f(%a) {{{}}} : (tensor<8x8xf32>) -> tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>"
_REDUCE = """%c = stablehlo.constant dense<0.0> : tensor<f32>
%0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
return %0 : tensor<8xf32>"""
_SAID = "{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {?}]>]>}"
_MANUAL = """%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
    manual_axes={"x"} (%p: tensor<4x8xf32>) {
  %1 = stablehlo.tanh %p : tensor<4x8xf32>
  sdy.return %1 : tensor<4x8xf32>
} : (tensor<8x8xf32>) -> tensor<8x8xf32>
return %0 : tensor<8x8xf32>"""
_LATE = """%0 = stablehlo.negate %a : tensor<8x8xf32>
%1 = sdy.named_computation<"f">(%0) (%p: tensor<8x8xf32>) {
  %3 = stablehlo.tanh %p : tensor<8x8xf32>
  sdy.return %3 : tensor<8x8xf32>
} : (tensor<8x8xf32>) -> tensor<8x8xf32>
%2 = stablehlo.add %0, %b : tensor<8x8xf32>
return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>"""

_CASES = [
    Case(
        "conflict",
        _argument("a", '{"x", ?}, {?}') + ", " + _argument("b", '{"y", ?}, {?}'),
        _ADD,
        "arg1",
        {'{"y", ?}': "{?}"},
        "split by {y} already, from argument arg1",
    ),
    Case(
        "conflict",
        _X + _argument("b", '{?}, {"x"}'),
        _ADD,
        "arg1",
        {'{?}, {"x"}': "{?}, {?}"},
        "x splits dimension 1 of it, from argument arg1",
    ),
    Case("closed", _X + _argument("b", "{}, {?}"), _ADD, "arg1", {"{}, {?}": "{?}, {?}"}, "closed by argument arg1"),
    Case(
        "closed",
        _X + "%b: tensor<8x8xf32>",
        "%1 = sdy.sharding_constraint %b <@mesh, [{}, {}]> : tensor<8x8xf32>\n"
        "%0 = stablehlo.add %a, %b : tensor<8x8xf32>\nreturn %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>",
        "arg1",
        {"{}, {}": "{?}, {?}"},
        "closed by sdy.sharding_constraint at p.mlir:4",
        result="tensor<8x8xf32>, tensor<8x8xf32>",
    ),
    Case(
        "priority",
        _X + _argument("b", '{?}, {"x"}p1'),
        _ADD,
        "arg1",
        {'{"x"}p1': "{?}"},
        "which the program gives priority 1",
    ),
    Case(
        "replicated",
        _X + _argument("b", "{?}, {?}", tail=', replicated={"x"}'),
        _ADD,
        "arg1",
        {', replicated={"x"}': ""},
    ),
    Case(
        "unreduced", _X + _argument("b", "{?}, {?}", tail=', unreduced={"x"}'), _ADD, "arg1", {', unreduced={"x"}': ""}
    ),
    Case(
        "mesh",
        _X + _argument("b", '{"u"}, {?}', mesh="other"),
        _ADD,
        "arg1",
        {'@other, [{"u"}, {?}]': "@mesh, [{?}, {?}]"},
    ),
    Case(
        "barrier",
        _argument("a", '{"x"}, {?}'),
        _unary("sdy.propagation_barrier %a allowed_direction=NONE"),
        "result0",
        {"=NONE": "=FORWARD"},
    ),
    Case(
        "barrier",
        _argument("a", '{"x"}, {?}'),
        _unary("sdy.propagation_barrier %a allowed_direction=BACKWARD"),
        "result0",
        {"=BACKWARD": "=FORWARD"},
    ),
    Case("no rule", _argument("a", '{"x"}, {?}'), _CALL.format("a.b = 1"), "result0", {"a.b = 1": _RULE + ", custom>"}),
    Case(
        "blocked",
        _argument("a", '{"x"}, {?}'),
        _CALL.format(_RULE + " blocked_propagation={i}, custom>"),
        "result0",
        {"blocked_propagation={i}, ": ", "},
    ),
    Case("reduced", _argument("a", '{"x"}, {?}'), _REDUCE, "result0", {"[0]": "[1]"}, result="tensor<8xf32>"),
    Case(
        "divisibility",
        _argument("a", '{"z"}, {?}', "tensor<8x6xf32>"),
        _reshape("tensor<8x6xf32>", "tensor<48xf32>"),
        "result0",
        {"8x6": "9x6", "48x": "54x"},
        "3 does not divide the 8 elements left",
        axis="z",
        result="tensor<48xf32>",
    ),
    Case(
        "overflow",
        _argument("a", '{"z", ?}', "tensor<48xf32>"),
        _reshape("tensor<48xf32>", "tensor<8x6xf32>"),
        "arg0",
        {'{"z", ?}': "{?}"},
        result='tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}',
    ),
    Case(
        "strided",
        _argument("a", '{?}, {"x"}', "tensor<2x8xf32>"),
        _reshape("tensor<2x8xf32>", "tensor<16xf32>"),
        "result0",
        {'{?}, {"x"}': '{"y"}, {"x"}'},
        result="tensor<16xf32>",
    ),
    Case(
        "elementwise",
        _FREE + _argument("b", '{"x"}, {?}'),
        f"%0 = stablehlo.add %a, %b {_SAID} : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>",
        "arg0",
        {_SAID: ""},
    ),
    Case(
        "basic",
        _X + _argument("b", "{}, {?}"),
        _ADD,
        "%0",
        {"{}, {?}": "{?}, {?}"},
        "operand 1 cannot take it",
        options=_Options(strategy="basic"),
    ),
    Case(
        "conservative",
        _argument("a", '{"w":(1)2}, {?}'),
        _unary("stablehlo.tanh %a"),
        "%0",
        {'"w":(1)2': '"w"'},
        axis="w",
        options=_Options(conservative=True),
    ),
    Case(
        "boundary",
        _argument("a", '{"z"}', "tensor<8xf32>"),
        _unary("stablehlo.tanh %a", "tensor<8xf32>"),
        "result0",
        {"8xf32": "9xf32"},
        "3 shards do not divide its 8 elements",
        axis="z",
        result="tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}]>}",
    ),
    Case(
        "manual",
        _argument("a", '{"x"}, {?}'),
        _MANUAL,
        "%arg1",
        {'manual_axes={"x"}': "manual_axes={}", "4x8": "8x8"},
    ),
    Case(
        "late",
        _FREE + _argument("b", '{"x"}, {?}'),
        _LATE,
        "%arg2",
        {},
        result="tensor<8x8xf32>, tensor<8x8xf32>",
        options=_Options(strategy="aggressive"),
    ),
]


def _explained(text: str, value: str, options: _Options) -> Explanation:
    recording = Recording()
    graph = propagate(read(load_module(text, "p.mlir"), "p.mlir"), record=recording, **options)
    [explanation] = explain_values(History(recording, graph), find_value(graph, value))
    return explanation


def _comes(explanation: Explanation, axis: str) -> bool:
    """Whether an axis came to dimension 0 of a value and stayed."""
    return any(chain.axis.name == axis and chain.dim == 0 and chain.kept for chain in explanation.chains)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.reason}-{case.value}")
def test_an_axis_stops_for_a_reason_and_comes_without_it(case: Case) -> None:
    stopped = _explained(case.text, case.value, case.options)
    assert not _comes(stopped, case.axis)
    stops = [stop for stop in stopped.stops if stop.inward or stop.reason == "boundary"]
    matches = [stop for stop in stops if stop.axis.name == case.axis and stop.reason == case.reason]
    assert matches, stopped
    assert all(case.detail in stop.detail for stop in matches)

    text = case.text
    for cause, instead in case.cause.items():
        assert cause in text
        text = text.replace(cause, instead)
    freed = _explained(text, case.value, case.options if case.cause else _Options())
    assert _comes(freed, case.axis), freed
    assert case.reason not in {stop.reason for stop in freed.stops if stop.inward and stop.axis.name == case.axis}


def test_an_axis_on_both_sides_of_an_op_without_a_rule_is_no_stop() -> None:
    annotation = 'sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>'
    case = Case("no rule", _argument("a", '{"x"}, {?}'), _CALL.format(annotation), "", {})
    stops = {name: _explained(case.text, name, _Options()).stops for name in ("arg0", "%0")}
    assert {name: [(stop.axis.name, stop.inward) for stop in its] for name, its in stops.items()} == {
        "arg0": [("y", True)],
        "%0": [("y", False)],
    }


def test_a_tensor_on_one_device_stops_axes_and_breaks_nothing() -> None:
    text = """sdy.mesh @mesh = <["x"=2]>
sdy.mesh @one = <[], device_ids=[1]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @f() {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}
      : () -> tensor<8xf32>
  %1 = stablehlo.add %a, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""
    [stop] = _explained(text, "%0", _Options()).stops
    assert (stop.axis.name, stop.reason, stop.source, stop.target) == ("x", "mesh", "operand 0", "operand 1")
