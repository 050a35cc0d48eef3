"""Why a value is sharded as it is: chains back to annotations, and where axes stopped."""

from __future__ import annotations

import os

import pytest

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
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
from tests.propagation.programs import random_program

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "40"))


def _explained(name: str, arguments: str, body: str, result: str = "tensor<8x8xf32>") -> Explanation:
    text = f'sdy.mesh @mesh = <["x"=2, "y"=2, "z"=3]>\nfunc.func @main({arguments}) -> ({result}) {{\n{body}\n}}'
    recording = Recording()
    graph = propagate(read(load_module(text, "p.mlir"), "p.mlir"), record=recording)
    [explanation] = explain_values(History(recording, graph), find_value(graph, name))
    return explanation


def _argument(name: str, dims: str, type: str = "tensor<8x8xf32>", tail: str = "") -> str:
    return f"%{name}: {type} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]{tail}>}}"


def _reasons(explanation: Explanation) -> set[tuple[str, str]]:
    return {(stop.axis.name, stop.reason) for stop in explanation.stops}


_ADD = "%0 = stablehlo.add %a, %b : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>"


def test_a_chain_leads_from_the_annotation_to_the_value() -> None:
    explanation = _explained(
        "result0",
        _argument("a", '{"x"}, {?}') + ", %b: tensor<8x8xf32>",
        "%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] "
        ": (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
        "%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"
        "return %1 : tensor<8x8xf32>",
    )
    (chain,) = explanation.chains
    assert (chain.axis, chain.dim, chain.annotation.where) == (AxisRef("x", 1, 2), 1, "argument arg0")
    links = [(link.op, link.source, link.target, link.dim) for link in chain.links]
    assert links == [
        ("stablehlo.dot_general", "operand 0", "result 0", 0),
        ("stablehlo.transpose", "operand 0", "result 0", 1),
        ("func.return", "operand 0", "result 0 of main", 1),
    ]
    assert chain.links[0].location == "p.mlir:3"
    assert chain.links[0].phase == "priority 0, round 3, aggressive"
    assert [link.step for link in chain.links] == sorted(link.step for link in chain.links)


def test_parts_of_an_axis_that_came_from_two_dimensions_have_chains_of_their_own() -> None:
    text = """sdy.mesh @mesh = <["c"=8]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c":(1)4}, {"c":(4)2}]>}) -> tensor<16xf32> {
  %0 = stablehlo.reshape %a : (tensor<4x4xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}"""
    recording = Recording()
    graph = propagate(read(load_module(text)), record=recording)
    [explanation] = explain_values(History(recording, graph), graph.main.block.ops[0].results)
    assert [chain.axis for chain in explanation.chains] == [AxisRef("c", 1, 4), AxisRef("c", 4, 2)]
    assert {chain.annotation.where for chain in explanation.chains} == {"argument arg0"}


def test_a_part_of_an_axis_that_replaced_another_came_from_elsewhere() -> None:
    text = """sdy.mesh @mesh = <["w"=6]>
func.func @main(%a: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"w":(1)3}]>}) -> tensor<12xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"w":(1)2, ?}]>]>} : tensor<12xf32>
  return %0 : tensor<12xf32>
}"""
    recording = Recording()
    graph = propagate(read(load_module(text)), record=recording)
    [value] = find_value(graph, "%0")
    assert repr(graph.shardings[value]) == "[{w:(1)3}]"
    [explanation] = explain_values(History(recording, graph), [value])
    (chain,) = explanation.chains
    assert (chain.axis, chain.annotation.where) == (AxisRef("w", 1, 3), "argument arg0")


def test_a_closed_constraint_reaches_back_to_its_operand() -> None:
    explanation = _explained(
        "arg0",
        "%a: tensor<8x8xf32>",
        '%0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>',
    )
    (chain,) = explanation.chains
    assert chain.annotation.where == "sdy.sharding_constraint"
    assert [link.kind for link in chain.links] == ["constraint"]


def test_axes_flow_around_loops() -> None:
    explanation = _explained(
        "result0",
        _argument("a", '{"x"}, {}'),
        "%i = stablehlo.constant dense<0> : tensor<i32>\n"
        "%0:2 = stablehlo.while(%u = %a, %v = %i) : tensor<8x8xf32>, tensor<i32> cond {\n"
        "  %c = stablehlo.compare LT, %v, %v : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  stablehlo.return %c : tensor<i1>\n"
        "} do {\n"
        "  stablehlo.return %u, %v : tensor<8x8xf32>, tensor<i32>\n"
        "}\n"
        "return %0#0 : tensor<8x8xf32>",
    )
    first = explanation.chains[0].links[0]
    assert (first.kind, first.op, first.source, first.target) == ("edge", "stablehlo.while", "operand 0", "result 0")


def test_a_group_shares_what_one_member_has() -> None:
    explanation = _explained(
        "arg1",
        _argument("a", '{"x"}, {}') + ", %b: tensor<8x8xf32>",
        "sdy.sharding_group %a group_id=0 : tensor<8x8xf32>\n"
        "sdy.sharding_group %b group_id=0 : tensor<8x8xf32>\nreturn %b : tensor<8x8xf32>",
    )
    assert [link.kind for link in explanation.chains[0].links] == ["group"]
    assert explanation.chains[0].annotation.where == "argument arg0"


def test_an_axis_of_a_later_priority_names_it() -> None:
    explanation = _explained("result0", _argument("a", '{"x"}p1, {?}') + ", %b: tensor<8x8xf32>", _ADD)
    (chain,) = explanation.chains
    assert chain.annotation.priority == 1
    assert chain.links[0].phase.startswith("priority 1, ")


@pytest.mark.parametrize(
    ("arguments", "stop"),
    [
        ((_argument("a", '{"x", ?}, {?}'), _argument("b", '{"y", ?}, {?}')), ("x", "conflict")),
        ((_argument("a", '{"x"}, {?}'), _argument("b", "{}, {?}")), ("x", "closed")),
        ((_argument("a", '{"x"}, {?}'), _argument("b", "{?}, {?}", tail=', replicated={"x"}')), ("x", "replicated")),
        ((_argument("a", '{"x"}, {?}'), _argument("b", "{?}, {?}", tail=', unreduced={"x"}')), ("x", "unreduced")),
        ((_argument("a", '{"x"}, {?}'), _argument("b", '{?}, {"x"}p1')), ("x", "priority")),
    ],
)
def test_a_stop_says_why(arguments: tuple[str, str], stop: tuple[str, str]) -> None:
    assert stop in _reasons(_explained("arg0", ", ".join(arguments), _ADD))


def test_barriers_and_ops_without_a_rule_stop_axes() -> None:
    argument = _argument("a", '{"x"}, {?}')
    barrier = "%0 = sdy.propagation_barrier %a allowed_direction=NONE : tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>"
    assert _reasons(_explained("arg0", argument, barrier)) == {("x", "barrier")}
    call = "%0 = stablehlo.custom_call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>\nreturn %0 : tensor<8x8xf32>"
    assert _reasons(_explained("arg0", argument, call)) == {("x", "no rule")}


def test_what_does_not_divide_stops_at_the_boundary() -> None:
    body = "%0 = stablehlo.tanh %a : tensor<8xf32>\nreturn %0 : tensor<8xf32>"
    note = "tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}]>}"
    explanation = _explained("result0", _argument("a", '{"z"}', "tensor<8xf32>"), body, note)
    assert _reasons(explanation) == {("z", "boundary")}
    assert "do not divide" in explanation.stops[0].detail


def test_what_does_not_divide_a_loop_stops_at_a_reshape() -> None:
    body = "%0 = stablehlo.reshape %a : (tensor<8x6xf32>) -> tensor<48xf32>\nreturn %0 : tensor<48xf32>"
    explanation = _explained("arg0", _argument("a", '{"z"}, {?}', "tensor<8x6xf32>"), body, "tensor<48xf32>")
    assert ("z", "divisibility") in _reasons(explanation)


def test_an_overflowing_axis_keeps_others_from_its_dimension() -> None:
    body = "%0 = stablehlo.reshape %a : (tensor<48xf32>) -> tensor<8x6xf32>\nreturn %0 : tensor<8x6xf32>"
    note = 'tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y"}]>}'
    explanation = _explained("arg0", _argument("a", '{"z", ?}', "tensor<48xf32>"), body, note)
    assert _reasons(explanation) == {("x", "overflow"), ("y", "overflow")}


def test_the_text_is_aligned() -> None:
    explanation = _explained("result0", _argument("a", '{"x", "y"}, {?}') + ", %b: tensor<8x8xf32>", _ADD)
    assert str(explanation).splitlines() == [
        "result result0: [{x, y}, {}]",
        "  x, y on dimension 0: from argument arg0 [{x, y}, {?}]",
        "    stablehlo.add  operand 0 -> result 0          dimension 0  p.mlir:3",
        "    func.return    operand 0 -> result 0 of main  dimension 0",
    ]
    assert format_explanation(explanation, everything=True).splitlines()[2:] == [
        "    stablehlo.add  operand 0 -> result 0          dimension 0  priority 0, round 1, aggressive  p.mlir:3",
        "    func.return    operand 0 -> result 0 of main  dimension 0  priority 0, round 1, aggressive",
    ]


def test_every_axis_of_every_value_of_random_programs_comes_from_an_annotation_that_has_it() -> None:
    for seed in range(_COUNT):
        graph = read(load_module(random_program(seed)))
        recording = Recording()
        made = propagate(graph, record=recording)
        assert made.shardings == propagate(graph).shardings
        values = [*made.main.block.arguments, *(value for op in made.walk() for value in op.results)]
        values += [~index for index in range(len(made.main.result_names))]
        for value, explanation in zip(values, explain_values(History(recording, made), values), strict=True):
            final = made.shardings[value] if value >= 0 else made.main.result_shardings[~value]
            for dim, dim_sharding in enumerate(final.dims if final is not None else ()):
                for axis in dim_sharding.axes:
                    parts = {c.axis for c in explanation.chains if c.dim == dim and c.axis.overlaps(axis)}
                    ways = 1
                    for part in parts:
                        ways *= part.size
                    assert ways >= axis.size, f"seed {seed}, value {value}: {axis} is not explained"
            for chain in explanation.chains:
                annotated = chain.annotation.sharding
                assert annotated is not None, f"seed {seed}, value {value}: no annotation"
                assert any(axis.overlaps(chain.axis) for axis in annotated.used_axes), f"seed {seed}, value {value}"


def test_a_recording_serves_once() -> None:
    graph = read(load_module(random_program(3)))
    recording = Recording()
    with pytest.raises(ShardingError, match="recording is empty"):
        explain_values(History(recording, graph), [0])
    propagate(graph, record=recording)
    with pytest.raises(ShardingError, match="another propagation"):
        propagate(graph, record=recording)
    with pytest.raises(ShardingError, match="no value 100000"):
        explain_values(History(recording, graph), [100_000])


def test_the_graph_that_was_given_and_the_one_made_are_explained_alike() -> None:
    graph = read(load_module(random_program(3)))
    recording = Recording()
    made = propagate(graph, record=recording)
    arguments = graph.main.block.arguments
    both = (explain_values(History(recording, one), arguments) for one in (graph, made))
    for given, propagated in zip(*both, strict=True):
        assert (given.name, given.chains, given.stops) == (propagated.name, propagated.chains, propagated.stops)
