"""Why values are sharded as the mesh RFC's completion left them: annotations, the way from them, and hints dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shardwright.axes import AxisRef, subtract_axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.program import load
from shardwright.propagation import Chain, Explanation, History, Recording, explain_values, find_value, propagate
from tests.propagation.programs import random_program

_HEAD = 'sdy.mesh @m = <["x"=2, "y"=4]>\n'
_T = "tensor<8x8xf32>"


def _recorded(text: str) -> tuple[Recording, Graph]:
    recording = Recording()
    return recording, propagate(load(text).graph, strategy="rfc", record=recording)


def _explained(body: str, name: str, arguments: str = f"%a: {_T}, %b: {_T}", result: str = _T) -> list[str]:
    recording, graph = _recorded(f"{_HEAD}func.func @main({arguments}) -> ({result}) {{\n{body}\n}}")
    return str(explain_values(History(recording, graph), find_value(graph, name))).splitlines()


_HINTS = f"""%0 = sdy.sharding_constraint %a <@m, [{{"x", ?}}, {{?}}]> : {_T}
%1 = sdy.sharding_constraint %b <@m, [{{"y", ?}}, {{?}}]> : {_T}
%2 = stablehlo.add %0, %1 : {_T}
%3 = stablehlo.tanh %2 : {_T}
return %3 : {_T}"""


def test_an_axis_is_followed_to_the_annotation_of_a_use() -> None:
    assert _explained(_HINTS, "result0") == [
        "result result0: [{x}, {}]",
        "  x on dimension 0: from sdy.sharding_constraint [{x, ?}, {?}]  (-:3)",
        "    stablehlo.add   operand 0 -> result 0          dimension 0  -:5",
        "    stablehlo.tanh  operand 0 -> result 0          dimension 0  -:6",
        "    func.return     operand 0 -> result 0 of main  dimension 0",
    ]


def test_a_hint_that_was_dropped_is_told_of_the_value_that_it_was_for() -> None:
    assert _explained(_HINTS, "b") == [
        "argument b: [{x}, {}]",
        "  x on dimension 0: from sdy.sharding_constraint [{x, ?}, {?}]  (-:3)",
        "    stablehlo.add  operand 0 -> operand 1     dimension 0  -:5",
        "    stablehlo.add  operand 1 -> the argument  dimension 0  -:5",
        "  -:4: the hint for operand 1 of stablehlo.add [{y}, {}] is dropped: "
        "it contradicts operand 0 of stablehlo.add [{x}, {}] at -:3",
    ]
    assert not [line for line in _explained(_HINTS, "a") if "dropped" in line]


def test_a_hint_for_a_result_is_told_of_the_op_that_makes_it() -> None:
    note = '{sdy.sharding = #sdy.sharding_per_value<[<@m, [{"y", ?}, {?}]>]>}'
    required = f'%0 = sdy.sharding_constraint %a <@m, [{{"x"}}, {{}}]> : {_T}\n'
    recording, graph = _recorded(
        f"{_HEAD}func.func @main(%a: {_T}) -> {_T} {{\n{required}"
        f"%1 = stablehlo.tanh %0 {note} : {_T}\nreturn %1 : {_T}\n}}"
    )
    [dropped] = recording.dropped
    assert (dropped.op, dropped.hint.line) == ("stablehlo.tanh", "-:4")
    for name in ("%0", "result0"):
        [explanation] = explain_values(History(recording, graph), find_value(graph, name))
        assert explanation.dropped == (str(dropped),)
        assert explanation.annotation is None


def test_a_value_s_own_annotation_is_shown_as_it_is_said() -> None:
    annotation = '{sdy.sharding = #sdy.sharding<@m, [{"x", ?}, {?}]>}'
    tanh = f"%0 = stablehlo.tanh %a : {_T}\nreturn %0 : {_T}"
    assert _explained(tanh, "a", f"%a: {_T} {annotation}") == [
        "argument a: [{x}, {}]",
        "  x on dimension 0: from its own annotation [{x, ?}, {?}]",
    ]
    closed = "{sdy.sharding = #sdy.sharding<@m, [{}, {}]>}"
    assert _explained(tanh, "a", f"%a: {_T} {closed}") == [
        "argument a: [{}, {}]",
        "  its annotation is [{}, {}]",
        "  no axis splits it",
    ]


def test_what_is_said_of_a_result_of_main_reaches_back() -> None:
    result = f'{_T} {{sdy.sharding = #sdy.sharding<@m, [{{"y"}}, {{}}]>}}'
    tanh = f"%0 = stablehlo.tanh %a : {_T}\nreturn %0 : {_T}"
    assert _explained(tanh, "result0", f"%a: {_T}", result)[1] == (
        "  y on dimension 0: from its own annotation [{y}, {}]"
    )
    assert _explained(tanh, "a", f"%a: {_T}", result) == [
        "argument a: [{y}, {}]",
        "  y on dimension 0: from result result0 [{y}, {}]",
        "    stablehlo.tanh  a use of result 0 -> operand 0  dimension 0  -:3",
        "    stablehlo.tanh  operand 0 -> the argument       dimension 0  -:3",
    ]


def test_a_preset_option_is_where_a_way_begins() -> None:
    add = f"%0 = stablehlo.add %a, %b {{shardwright.option = [[], [0]]}} : {_T}\nreturn %0 : {_T}"
    assert _explained(add, "%0") == [
        "%0 = stablehlo.add: [{}, {x}]  (-:3)",
        "  x on dimension 1: from shardwright.option of stablehlo.add [{}, {x}]  (-:3)",
        "    stablehlo.add  shardwright.option -> result 0  dimension 1  -:3",
    ]


def test_a_reshard_is_explained_by_the_use_that_it_is_for() -> None:
    body = f"""%0 = sdy.sharding_constraint %a <@m, [{{}}, {{"y"}}]> : {_T}
%1 = stablehlo.tanh %0 : {_T}
return %1 : {_T}"""
    own = f'%a: {_T} {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}}'
    assert _explained(body, "%0", own) == [
        "%0 = sdy.reshard: [{}, {y}]  (-:4)",
        "  y on dimension 1: from sdy.sharding_constraint [{}, {y}]  (-:3)",
        "    stablehlo.tanh  operand 0 -> the reshard  dimension 1  -:4",
    ]


def test_a_value_that_nothing_reaches_says_so() -> None:
    body = f"%0 = stablehlo.tanh %a : {_T}\nreturn %0 : {_T}"
    assert _explained(body, "%0")[1] == "  no axis splits it: nothing that the program says reaches it"


def test_what_the_boundary_cuts_was_there_before() -> None:
    annotation = '{sdy.sharding = #sdy.sharding<@m, [{"x", "y", ?}]>}'
    body = "%0 = stablehlo.tanh %a : tensor<4xf32>\nreturn %0 : tensor<4xf32>"
    lines = _explained(body, "a", f"%a: tensor<4xf32> {annotation}", "tensor<4xf32>")
    assert lines[0] == "argument a: [{x}]"
    assert "  y on dimension 0, until it was cut at the boundary: from its own annotation [{x, y, ?}]" in lines


def test_a_loop_s_argument_is_its_result_and_what_its_body_returns_is_named() -> None:
    body = f"""%i = stablehlo.constant dense<0> : tensor<i32>
%z = stablehlo.constant dense<0.0> : {_T}
%0:2 = stablehlo.while(%u = %z, %v = %i) : {_T}, tensor<i32> cond {{
  %c = stablehlo.compare LT, %v, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}} do {{
  %t = stablehlo.sine %a : {_T}
  stablehlo.return %t, %v : {_T}, tensor<i32>
}}
return %0#0 : {_T}"""
    annotation = '{sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}'
    way = [
        "  x on dimension 0: from argument a [{x}, {}]",
        "    stablehlo.sine   operand 0 -> result 0                      dimension 0  -:9",
        "    stablehlo.while  operand 0 of stablehlo.return -> result 0  dimension 0  -:5",
    ]
    assert _explained(body, "%1#0", f"%a: {_T} {annotation}") == ["%1#0 = stablehlo.while#0: [{x}, {}]  (-:5)", *way]
    assert _explained(body, "%iterArg", f"%a: {_T} {annotation}")[1:] == way
    assert _explained(body, "%0", f"%a: {_T} {annotation}")[-1].split("  ")[2:4] == [
        "stablehlo.while",
        "the result that it becomes -> the reshard",
    ]


def test_a_recording_holds_one_completion() -> None:
    text = f"{_HEAD}func.func @main(%a: {_T}) -> {_T} {{ return %a : {_T} }}"
    recording, _ = _recorded(text)
    with pytest.raises(ShardingError, match="holds another propagation"):
        propagate(load(text).graph, strategy="rfc", record=recording)


# Random programs


def _programs() -> Iterator[tuple[str, Recording, Graph]]:
    for seed in range(60):
        text = re.sub(r"^ *sdy\.sharding_group .*\n", "", random_program(seed), flags=re.MULTILINE)
        if "manual_computation" in text:
            continue
        try:
            yield text, *_recorded(text)
        except ShardingError as error:
            assert "contradict" in str(error)


def _split(explanation: Explanation) -> Iterator[tuple[int, AxisRef]]:
    assert explanation.sharding is not None
    for dim, dim_sharding in enumerate(explanation.sharding.dims):
        for axis in dim_sharding.axes:
            yield dim, axis


def _begins_where_it_is_stated(chain: Chain) -> bool:
    sharding = chain.annotation.sharding
    assert sharding is not None
    axes = [*sharding.used_axes, *sharding.partial_axes]
    return any(axis.overlaps(chain.axis) for axis in axes)


def test_every_axis_is_followed_to_an_annotation_that_has_it() -> None:
    explained = 0
    for text, recording, graph in _programs():
        values = [value for value, type in enumerate(graph.types) if type.is_tensor]
        results = [~index for index in range(len(graph.main.result_names))]
        for explanation in explain_values(History(recording, graph), [*values, *results]):
            for dim, axis in _split(explanation):
                parts = [chain.axis for chain in explanation.chains if chain.dim == dim]
                assert not subtract_axes((axis,), parts), text
            for chain in explanation.chains:
                assert _begins_where_it_is_stated(chain), text
                assert all(link.axis.overlaps(chain.axis) for link in chain.links), text
                assert not chain.links or (chain.links[-1].dim, chain.links[-1].axis) == (chain.dim, chain.axis)
                explained += 1
    assert explained > 400


def test_values_that_say_nothing_reached_them_are_whole() -> None:
    untouched = 0
    for text, recording, graph in _programs():
        values = [value for value, type in enumerate(graph.types) if type.is_tensor]
        for explanation in explain_values(History(recording, graph), values):
            if "nothing that the program says" in explanation.whole:
                assert explanation.sharding is not None
                assert not explanation.sharding.used_axes, text
                assert explanation.annotation is None
                untouched += 1
    assert untouched > 10
