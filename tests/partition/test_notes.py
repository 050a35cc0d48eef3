"""Nothing is dropped in silence: shardings that are cut, ops computed whole, collectives that nobody reads."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.program import Plan, Spmd
from shardwright.report.text import summary_page


def _plan(arguments: str, body: str, results: str) -> Plan:
    text = f'sdy.mesh @mesh = <["x"=2, "y"=4]>\nfunc.func @main({arguments}) -> ({results}) {{\n{body}\n}}'
    return sw.load(text).shard()


def _spmd(arguments: str, body: str, results: str) -> Spmd:
    return _plan(arguments, body, results).partition(effort="fast")


def _on(type: str, dims: str) -> str:
    return f"{type} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}"


def _brief(spmd: Spmd) -> list[tuple[str, str, int, str]]:
    return [(note.op, note.location, note.bytes, note.measure) for note in spmd.notes]


def _sorted(dim: int, value: str = "%a", comes_first: str = "LT") -> str:
    order = (
        f"%c = stablehlo.compare {comes_first}, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "stablehlo.return %c : tensor<i1>"
    )
    return f'"stablehlo.sort"({value}) <{{dimension = {dim}}}> ({{^bb0(%p: tensor<f32>, %q: tensor<f32>): {order}}})'


_TANH = "  %0 = stablehlo.tanh %a : tensor<2x8xf32>\n"
_TWO = "tensor<2x8xf32>"
"""Over four devices two rows are one on each of two, however they are split: what does not divide is cut."""


def test_an_argument_that_is_cut_to_a_part_of_an_axis_is_told_at_its_place() -> None:
    spmd = _spmd("%a: " + _on(_TWO, '{"y"}, {"x"}'), f"{_TANH}  return %0 : {_TWO}", _TWO)
    first = spmd.notes[0]
    assert (first.op, first.location, first.bytes, first.measure) == ("func.func", "-:2", 0, "held")
    shards = "4 shards of dimension 0 (2) would be no smaller"
    assert first.message == f"argument 'a' lies as [{{y:(1)2}}, {{x}}], not as [{{y}}, {{x}}]: {shards}"
    assert _brief(spmd)[1:] == [("stablehlo.tanh", "-:3", 0, "held"), ("func.return", "-:4", 16, "sent")]


def test_shardings_given_from_outside_are_told_as_well() -> None:
    program = sw.load(f"func.func @main(%a: {_TWO}) -> {_TWO} {{\n return %a : {_TWO}\n}}")
    note, returned = program.shard(sw.Mesh(x=2, y=4), args={"a": sw.P("y", "x")}).partition(effort="fast").notes
    assert returned.message == "operand 0 is gathered along dimension 0: it is to lie as [{}, {x}] there"
    assert note.message.startswith("argument 'a' lies as [{y:(1)2}, {x}], not as [{y}, {x}]")


def test_uneven_shardings_are_kept_and_not_told_of() -> None:
    seven = "tensor<7x8xf32>"
    spmd = _spmd(
        "%a: " + _on(seven, '{"y"}, {"x"}'), f"  %0 = stablehlo.tanh %a : {seven}\n  return %0 : {seven}", seven
    )
    assert spmd.notes == ()
    assert [repr(sharding) for sharding in (*spmd.in_shardings, *spmd.out_shardings)] == ["[{y}, {x}]"] * 2


def test_an_op_that_cannot_be_computed_on_uneven_shards_is_told_of() -> None:
    """Columns that can take the axes do, one all_to_all away."""
    for columns, done, sent in (
        (1, "gathered along dimension", 3 * 2),
        (8, "split along another dimension than", 3 * 4),
    ):
        seven = f"tensor<7x{columns}xf32>"
        call = f"  %0 = {_sorted(0)} : ({seven}) -> {seven}\n  return %0 : {seven}"
        notes = _spmd("%a: " + _on(seven, '{"y"}, {}'), call, seven).notes
        (note,) = (note for note in notes if note.measure == "sent")
        assert (note.op, note.location, note.bytes, note.measure) == ("stablehlo.sort", "-:3", sent * 4, "sent")
        assert note.message == f"an operand is {done} 0 (7): no local form of this op on uneven shards"
        assert note.is_fallback == (columns == 1)


def test_a_result_that_is_cut_is_told_at_the_return() -> None:
    spmd = _spmd(f"%a: {_TWO}", f"{_TANH}  return %0 : {_TWO}", _on(_TWO, '{"y"}, {}'))
    assert ("func.func", "-:4", 0, "held") in _brief(spmd)
    assert spmd.notes[0].message.startswith("result 'result0' lies as [{y:(1)2}, {}], not as [{y}, {}]")


def test_a_constraint_that_is_cut_is_told_at_its_line() -> None:
    body = f'{_TANH}  %1 = sdy.sharding_constraint %0 <@mesh, [{{"y"}}, {{}}]> : {_TWO}\n  return %1 : {_TWO}'
    assert [note.location for note in _spmd(f"%a: {_TWO}", body, _TWO).notes] == ["-:3", "-:4", "-:5"]


def test_what_follows_from_a_cut_value_is_told_once() -> None:
    body = _TANH + "".join(f"  %{n + 1} = stablehlo.tanh %{n} : {_TWO}\n" for n in range(5))
    spmd = _spmd("%a: " + _on(_TWO, '{"y"}, {"x"}'), f"{body}  return %5 : {_TWO}", _TWO)
    assert [note.op for note in spmd.notes] == ["func.func", "stablehlo.tanh", "func.return"]


def test_shardings_that_divide_are_not_told_of() -> None:
    spmd = _spmd("%a: " + _on(_TWO, '{"x"}, {"y"}'), f"{_TANH}  return %0 : {_TWO}", _on(_TWO, '{"x"}, {"y"}'))
    assert spmd.notes == ()


_CALL = "  %0 = stablehlo.custom_call @foo(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n  return %0 : tensor<8x8xf32>"
_EIGHT = "tensor<8x8xf32>"


def test_an_op_whose_result_alone_was_to_be_split_is_told_of() -> None:
    (note,) = _spmd(f"%a: {_EIGHT}", _CALL, _on(_EIGHT, '{"y"}, {}')).notes
    assert (note.op, note.location) == ("stablehlo.custom_call @foo", "-:3")
    assert note.message.startswith("result 0 is computed whole along dimension 0: no local form")
    assert (note.bytes, note.measure) == (8 * 8 * 4 * 3 // 4, "held")


def test_every_op_that_reads_what_was_gathered_is_told_of() -> None:
    orders = enumerate(("LT", "GT"))
    body = "".join(f"  %{n} = {_sorted(1, '%a', first)} : ({_EIGHT}) -> {_EIGHT}\n" for n, first in orders)
    end = f"  %2 = stablehlo.add %0, %1 : {_EIGHT}\n  return %2 : {_EIGHT}"
    spmd = _spmd("%a: " + _on(_EIGHT, '{"x"}, {"y"}'), body + end, _EIGHT)
    assert _brief(spmd) == [("stablehlo.sort", "-:3", 96, "sent"), ("stablehlo.sort", "-:4", 0, "sent")]


def test_a_rule_that_does_not_let_an_op_be_split_is_named() -> None:
    rule = "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, k]) {i=8, j=8, k=8}, custom>"
    call = f"  %0 = stablehlo.custom_call @foo(%a) {{{rule}}} : ({_EIGHT}) -> {_EIGHT}\n  return %0 : {_EIGHT}"
    (note,) = _spmd("%a: " + _on(_EIGHT, '{"x"}, {"y"}'), call, _EIGHT).notes
    assert note.message.endswith("dimension 1: by the rule given for this op it is not computed in parts along it")


def test_an_operand_that_a_reshape_cannot_keep_as_it_lies_is_told_of() -> None:
    """Three rows among four devices: along neither dimension are these parts, though both can be split."""
    body = "  %0 = stablehlo.reshape %a : (tensor<12xf32>) -> tensor<3x4xf32>\n  return %0 : tensor<3x4xf32>"
    (note,) = _spmd("%a: " + _on("tensor<12xf32>", '{"y"}'), body, _on("tensor<3x4xf32>", "{}, {}")).notes
    assert (note.op, note.location, note.bytes, note.measure) == ("stablehlo.reshape", "-:3", 36, "sent")
    assert note.message.startswith("operand 0 is gathered along dimension 0")


_TANH_8 = f"  %0 = stablehlo.tanh %a : {_EIGHT}\n"
_GATHER = f'  %0 = sdy.all_gather [{{}}, {{"y"}}] %a out_sharding=<@mesh, [{{"x"}}, {{}}]> : {_EIGHT}\n'


def test_a_collective_that_nobody_reads_in_an_explicit_program_is_told_of() -> None:
    body = f"{_GATHER}  return %a : {_EIGHT}"
    sharded = _on(_EIGHT, '{"x"}, {"y"}')
    (note,) = _spmd(f"%a: {sharded}", body, sharded).notes
    assert (note.op, note.location, note.message) == ("sdy.all_gather", "-:3", "nobody reads its result")
    assert note.bytes == 4 * 8 * 4 * 3 // 4


def test_a_collective_that_nobody_reads_is_left_out_and_told_of() -> None:
    body = f"{_GATHER}  %1 = stablehlo.tanh %a : {_EIGHT}\n  %2 = stablehlo.tanh %1 : {_EIGHT}\n  return %2 : {_EIGHT}"
    spmd = _spmd("%a: " + _on(_EIGHT, '{"x"}, {"y"}'), body, _EIGHT)
    (note,) = spmd.notes
    assert (note.op, note.location, note.bytes, note.measure) == ("sdy.all_gather", "-:3", 96, "spared")
    assert "nobody reads the value as [{x}, {}]" in note.message
    assert spmd.traffic.total.static == 0


@pytest.mark.parametrize(
    ("measure", "words"), [("sent", "sent"), ("held", "more on each device"), ("spared", "not sent")]
)
def test_the_summary_says_what_the_bytes_are(measure: str, words: str) -> None:
    spmd = _spmd(f"%a: {_EIGHT}", _CALL, _on(_EIGHT, '{"y"}, {}'))
    summary: dict[str, Any] = spmd.summary()
    summary["notes"][0]["measure"] = measure
    assert f"192 B {words}" in str(summary_page(summary, 200))


def test_an_op_of_which_nothing_is_known_is_told_of_where_nothing_is_split() -> None:
    (note,) = _spmd(f"%a: {_EIGHT}", _CALL, _EIGHT).notes
    assert (note.op, note.location, note.bytes) == ("stablehlo.custom_call @foo", "-:3", 0)
    assert note.message == "it is computed whole on every device: no local form of this call is known"
    assert note.remedy == "give it a rule, by sw.rule or the attribute sdy.sharding_rule"


# --- what is gathered, though the op could be computed in parts along it


_DOT = """  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>"""
_SQUARE = "tensor<64x64xf32>"
_BOTH = "%a: " + _on(_SQUARE, '{"y"}, {}') + ", %b: " + _on(_SQUARE, '{}, {"y"}')


def test_an_operand_that_is_gathered_since_shardings_do_not_agree_is_told_of() -> None:
    with sw.Session(hardware=sw.hardware("tpu_v5p").with_a_link()):
        (note,) = _spmd(_BOTH, _DOT, _on(_SQUARE, '{"y"}, {}')).notes
    assert (note.op, note.location, note.bytes, note.measure) == ("stablehlo.dot_general", "-:3", 12288, "sent")
    assert note.message == "operand 1 is gathered along dimension 1: as the tensors of the op lie, that is cheapest"
    assert note.remedy == "let operand 1 lie as [{}, {}], or the others so that it fits them"
    assert not note.is_fallback


def test_a_result_that_is_gathered_to_be_returned_is_told_of() -> None:
    (note,) = _spmd("%a: " + _on(_EIGHT, '{"x"}, {}'), f"{_TANH_8}  return %0 : {_EIGHT}", _on(_EIGHT, "{}, {}")).notes
    assert (note.op, note.bytes) == ("func.return", 128)
    assert note.message == "operand 0 is gathered along dimension 0: it is to lie as [{}, {}] there"
    assert not note.is_fallback


def test_an_uneven_result_that_is_gathered_to_be_returned_is_told_of() -> None:
    seven = "tensor<7x8xf32>"
    body = f"  %0 = stablehlo.tanh %a : {seven}\n  return %0 : {seven}"
    (note,) = _spmd("%a: " + _on(seven, '{"y"}, {"x"}'), body, _on(seven, '{"y"}, {}')).notes
    assert (note.op, note.location, note.bytes) == ("func.return", "-:4", 2 * 4 * 4)
    assert note.message == "a result is gathered along dimension 1: it is to lie as [{y}, {}]"
    assert not note.is_fallback


def test_what_a_user_asks_to_gather_is_not_told_of() -> None:
    body = f"{_TANH_8}  %1 = sdy.sharding_constraint %0 <@mesh, [{{}}, {{}}]> : {_EIGHT}\n  return %1 : {_EIGHT}"
    assert _spmd("%a: " + _on(_EIGHT, '{"x"}, {}'), body, _on(_EIGHT, "{}, {}")).notes == ()


# --- costs and remedies


def test_an_op_that_is_split_along_another_dimension_is_no_fallback() -> None:
    wide = "tensor<512x512xf32>"
    body = f"  %0 = {_sorted(0)} : ({wide}) -> {wide}\n  return %0 : {wide}"
    (note,) = _spmd("%a: " + _on(wide, '{"y"}, {}'), body, _on(wide, '{}, {"y"}')).notes
    assert note.message == "operand 0 is split along another dimension than 0: no local form of this op along it"
    assert (note.work, note.is_fallback) == (0, False)


def test_the_work_beyond_a_share_is_told() -> None:
    body = f"  %0 = {_sorted(1)} : ({_EIGHT}) -> {_EIGHT}\n  return %0 : {_EIGHT}"
    note = _spmd("%a: " + _on(_EIGHT, '{"x"}, {"y"}'), body, _EIGHT).notes[0]
    assert note.work == 8 * 8 // 2 - 8 * 8 // 8
    assert note.remedy == "split operand 0 along dimension 0 instead"
    assert note.is_fallback


def test_an_op_that_is_split_along_nothing_has_a_remedy() -> None:
    body = f"  %0 = {_sorted(0)} : (tensor<8xf32>) -> tensor<8xf32>\n  return %0 : tensor<8xf32>"
    note = _spmd("%a: " + _on("tensor<8xf32>", '{"y"}'), body, "tensor<8xf32>").notes[0]
    assert note.remedy == "let operand 0 be whole: along no dimension of it parts of this op are computed"


# --- strictly


def _sorts(count: int, type: str = _EIGHT, dim: int = 1, lying: str = '{"x"}, {"y"}') -> tuple[str, str, str]:
    """So many arguments, a body that sorts each of them and returns all, and the types of that."""
    body = "".join(f"  %{n} = {_sorted(dim, f'%a{n}')} : ({type}) -> {type}\n" for n in range(count))
    types = ", ".join([type] * count)
    arguments = ", ".join(f"%a{n}: {_on(type, lying)}" for n in range(count))
    return arguments, f"{body}  return {', '.join(f'%{n}' for n in range(count))} : {types}", types


def test_what_needs_a_fallback_is_refused_where_it_is_to_be_strict() -> None:
    plan = _plan(*_sorts(2))
    with pytest.raises(sw.ShardingError) as raised:
        plan.partition(strict=True)
    diagnostic = raised.value.diagnostic
    assert diagnostic.message == "it cannot be partitioned strictly: 2 fallbacks"
    assert (diagnostic.op, diagnostic.location) == ("stablehlo.sort", "-:3")
    first, second = (line.strip() for line in diagnostic.cause.splitlines())
    assert first.startswith("-:3: stablehlo.sort: operand 0 is gathered along dimension 1: no local form of this op")
    assert second.startswith("-:4: stablehlo.sort: operand 0 is gathered along dimension 1")
    assert diagnostic.remedy.splitlines()[0] == "split operand 0 along dimension 0 instead"


def test_a_sharding_that_is_cut_is_refused_where_it_is_to_be_strict() -> None:
    plan = _plan("%a: " + _on(_TWO, '{"y"}, {"x"}'), f"{_TANH}  return %0 : {_TWO}", _TWO)
    with pytest.raises(sw.ShardingError, match="argument 'a' lies as"):
        plan.partition(strict=True)


def test_what_is_told_and_is_no_fallback_may_be_partitioned_strictly() -> None:
    plan = _plan(_BOTH, _DOT, _on(_SQUARE, '{"y"}, {}'))
    spmd = plan.partition(strict=True)
    assert spmd.notes == plan.partition(effort="fast").notes != ()


def test_many_fallbacks_are_counted_and_the_first_are_named() -> None:
    plan = _plan(*_sorts(25))
    with pytest.raises(sw.ShardingError, match="25 fallbacks") as raised:
        plan.partition(strict=True)
    lines = raised.value.diagnostic.cause.splitlines()
    assert len(lines) == 21
    assert lines[-1].strip() == "and 5 more: `Spmd.notes` lists all"


def test_ops_that_are_decided_alike_are_told_of_each_at_its_place() -> None:
    spmd = _spmd(*_sorts(3, "tensor<8xf32>", 0, '{"x"}'))
    notes = [note for note in spmd.notes if note.op == "stablehlo.sort"]
    assert [(note.location, note.bytes) for note in notes] == [("-:3", 16), ("-:4", 16), ("-:5", 16)]
    assert len({note.message for note in notes}) == 1


def test_an_op_that_is_split_less_since_the_program_is_faster_so_is_no_fallback() -> None:
    def diffused(u: jax.Array) -> jax.Array:
        around = [jnp.roll(u, shift, axis) for axis in (0, 1) for shift in (1, -1)]
        return u + 0.1 * (around[0] + around[1] + around[2] + around[3] - 4 * u)

    def many(u: jax.Array) -> jax.Array:
        done: jax.Array = jax.lax.fori_loop(0, 10, lambda _, u: diffused(u), u)
        return done

    plan = sw.from_jax(many, jnp.ones((36, 36))).shard(sw.Mesh(x=2, y=3), args=(sw.P("x", "y"),))
    with sw.Session(hardware=sw.hardware("h100")):
        spmd = plan.partition(strict=True)
    assert spmd.searched is not None
    assert spmd.searched.otherwise > 0
    assert not [note for note in spmd.notes if "no local form" in note.message]


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_an_axis_of_size_1_that_is_left_out_is_not_told_of(effort: str) -> None:
    program = sw.load(f"func.func @main(%a: {_TWO}) -> {_TWO} {{\n{_TANH}  return %0 : {_TWO}\n}}")
    across, both = sw.P("one", "x"), sw.P(("x", "one"))
    plan = program.shard(sw.Mesh(one=1, x=2), args={"a": across}, results=(across,))
    assert plan.partition(strict=True, effort=effort).notes == ()
    assert program.shard(sw.Mesh(one=1, x=2), args={"a": both}).partition(strict=True, effort=effort).notes == ()
