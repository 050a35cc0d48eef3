"""How explanations read: what is said of a value without axes, and long lists in short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.propagation import (
    Explanation,
    History,
    Recording,
    explain_values,
    find_value,
    format_explanation,
    propagate,
)
from shardwright.propagation.explain.condense import Gap, Repeat, condensed
from shardwright.propagation.explain.explanation import Explanations

_MESH = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n'
_X = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}'


def _explained(text: str, *names: str) -> Explanations:
    recording = Recording()
    graph = propagate(read(load_module(text, "p.mlir"), "p.mlir"), record=recording)
    return explain_values(History(recording, graph), [value for name in names for value in find_value(graph, name)])


def _function(arguments: str, body: str, result: str) -> str:
    return f"func.func @main({arguments}) -> ({result}) {{\n{body}\n}}"


# Lists in short


@given(st.lists(st.sampled_from("abc"), max_size=80))
def test_repetitions_are_counted_and_nothing_is_lost(items: list[str]) -> None:
    whole: list[str] = []
    for item in condensed(items, ends=100):
        assert not isinstance(item, Gap)
        whole += whole[-item.period :] * item.times if isinstance(item, Repeat) else [item]
    assert whole == items


@given(st.lists(st.integers(0, 3), max_size=200), st.integers(1, 9))
def test_the_ends_are_kept_and_the_rest_is_counted(items: list[int], ends: int) -> None:
    short = condensed(items, ends)
    assert len(short) <= 2 * ends + 1
    count = 0
    for place, item in enumerate(short):
        if isinstance(item, Repeat):
            assert item.period <= place
            assert not any(isinstance(other, Gap) for other in short[place - item.period : place])
            count += item.period * item.times
        else:
            count += item.count if isinstance(item, Gap) else 1
    assert count == len(items)


def _layers(count: int) -> str:
    body, value = [], "%a"
    for layer in range(count):
        for number, op in enumerate(("tanh", "negate", "exponential")):
            line = f'loc("model.py":{10 + number}:0)'
            body.append(f"%v{layer}_{number} = stablehlo.{op} {value} : tensor<8x8xf32> {line}")
            value = f"%v{layer}_{number}"
    body.append(f"return {value} : tensor<8x8xf32>")
    return _MESH + _function(f"%a: tensor<8x8xf32> {_X}", "\n".join(body), "tensor<8x8xf32>")


def test_the_layers_of_a_model_are_counted() -> None:
    [explanation] = _explained(_layers(100), "result0")
    assert str(explanation).splitlines() == [
        "result result0: [{x}, {}]",
        "  x on dimension 0: from argument arg0 [{x}, {?}]",
        "    stablehlo.tanh         operand 0 -> result 0          dimension 0  model.py:10",
        "    stablehlo.negate       operand 0 -> result 0          dimension 0  model.py:11",
        "    stablehlo.exponential  operand 0 -> result 0          dimension 0  model.py:12",
        "    these 3 steps 99 more times",
        "    func.return            operand 0 -> result 0 of main  dimension 0",
    ]
    assert len(explanation.chains[0].links) == 301
    assert len(format_explanation(explanation, everything=True).splitlines()) == 303


def test_of_many_stops_the_first_are_shown() -> None:
    adds = "\n".join(f"%v{number} = stablehlo.add %a, %b : tensor<8x8xf32>" for number in range(30))
    returned = ", ".join(f"%v{number}" for number in range(30))
    types = ", ".join(["tensor<8x8xf32>"] * 30)
    closed = "{sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}"
    arguments = f"%a: tensor<8x8xf32> {_X}, %b: tensor<8x8xf32> {closed}"
    [explanation] = _explained(_MESH + _function(arguments, f"{adds}\nreturn {returned} : {types}", types), "arg1")
    assert len(explanation.stops) == 60
    lines = str(explanation).splitlines()
    assert lines[-1] == "    … 48 more; --all lists them"
    assert len(lines) == 3 + 1 + 12 + 1
    assert len(format_explanation(explanation, everything=True).splitlines()) == 3 + 1 + 60


# Values without axes


def _second_line(text: str, name: str) -> str:
    [explanation] = _explained(text, name)
    return str(explanation).splitlines()[1].strip()


_TANH = "%0 = stablehlo.tanh %a : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>"


def test_a_value_without_axes_says_why() -> None:
    plain = _function("%a: tensor<8x8xf32>", _TANH, "tensor<8x8xf32>")
    assert _second_line(plain, "%0") == "the program has no mesh"
    assert _second_line(_MESH + plain, "%0") == "no axis splits it, and no neighbour has one for it"
    scalar = _function("%a: tensor<f32>", _TANH.replace("8x8x", ""), "tensor<f32>")
    assert _second_line(_MESH + scalar, "%0") == "it has no dimension to split"
    split = _function(f"%a: tensor<8x8xf32> {_X}", _TANH, "tensor<8x8xf32>")
    barred = split.replace("stablehlo.tanh %a", "sdy.propagation_barrier %a allowed_direction=NONE")
    assert _second_line(_MESH + barred, "%0") == "no axis splits it"


def test_an_annotation_that_no_axis_came_from_is_shown() -> None:
    annotation = "{sdy.sharding = #sdy.sharding<@mesh, [{?}, {}]>}"
    text = _MESH + _function(f"%a: tensor<8x8xf32> {annotation}", _TANH, "tensor<8x8xf32>")
    assert _second_line(text, "arg0") == "its annotation is [{?}, {}]"


def test_an_axis_that_its_own_annotation_gave_a_value_came_from_nowhere_else() -> None:
    text = _MESH + _function(f"%a: tensor<8x8xf32> {_X}", _TANH, "tensor<8x8xf32>")
    assert _second_line(text, "arg0") == "x on dimension 0: from its own annotation [{x}, {?}]"


def test_an_axis_that_callers_may_not_see_is_said_to_be_cut() -> None:
    arguments = '%a: tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}'
    text = _MESH + _function(arguments, _TANH.replace("8x8", "7"), "tensor<7xf32>")
    assert _second_line(text, "result0").startswith("x on dimension 0, until it was cut at the boundary: from argument")


# Names


def test_values_are_headed_by_the_number_that_mlir_prints() -> None:
    text = _MESH + _function(f"%a: tensor<8x8xf32> {_X}", _TANH, "tensor<8x8xf32>")
    heads = [str(explanation).splitlines()[0] for explanation in _explained(text, "%0", "arg0", "result0")]
    assert heads == [
        "%0 = stablehlo.tanh: [{x}, {}]  (p.mlir:3)",
        "argument arg0: [{x}, {}]",
        "result result0: [{x}, {}]",
    ]


def test_arguments_of_regions_are_named_by_their_op() -> None:
    loop = (
        "%i = stablehlo.constant dense<0> : tensor<i32>\n"
        "%0:2 = stablehlo.while(%u = %a, %v = %i) : tensor<8x8xf32>, tensor<i32> cond {\n"
        "  %c = stablehlo.compare LT, %v, %v : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  stablehlo.return %c : tensor<i1>\n} do {\n"
        "  %t = stablehlo.tanh %u : tensor<8x8xf32>\n"
        "  stablehlo.return %t, %v : tensor<8x8xf32>, tensor<i32>\n}\n"
        "return %0#0 : tensor<8x8xf32>"
    )
    text = _MESH + _function(f"%a: tensor<8x8xf32> {_X}", loop, "tensor<8x8xf32>")
    [explanation] = _explained(text, "%iterArg")
    assert (explanation.name, explanation.location) == ("argument 0 of its body, stablehlo.while", "p.mlir:4")


def test_explanations_print_as_the_command_prints_them() -> None:
    text = _MESH + _function(f"%a: tensor<8x8xf32> {_X}", _TANH, "tensor<8x8xf32>")
    explanations = _explained(text, "arg0", "%0")
    one, other = explanations
    assert isinstance(one, Explanation)
    assert str(explanations) == repr(explanations) == f"{one}\n\n{other}"
