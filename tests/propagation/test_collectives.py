"""Collectives that a program states, on operands whose shardings propagation changes."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.stage import Stage

_UNREDUCED = '[{"a"}, {}], unreduced={"b"}'

_CUT = {
    "all_gather": '%0 = sdy.all_gather [{"a"}, {}] %a out_sharding=<@m, [{}, {}]> :T',
    "all_slice": '%0 = sdy.all_slice [{}, {"b"}] %a out_sharding=<@m, [{"a"}, {"b"}]> :T',
    "all_to_all": '%0 = sdy.all_to_all [{"a"}: 0->1] %a out_sharding=<@m, [{}, {"a"}]> :T',
    "collective_permute": '%0 = sdy.collective_permute %a out_sharding=<@m, [{"a":(4)4, "b", "a":(2)2}, {}]> :T',
    "replicated_to_unreduced": '%0 = sdy.replicated_to_unreduced {"b"} %a out_sharding=<@m, UNREDUCED> :T',
    "sharded_to_unreduced": (
        '%0 = sdy.sharded_to_unreduced [{"a"}, {}] %a out_sharding=<@m, [{}, {}], unreduced={"a"}> :T'
    ),
    "one after the other": """%1 = sdy.all_slice [{"b"}, {}] %a out_sharding=<@m, [{"a", "b"}, {}]> :T
  %0 = sdy.all_gather [{"a", "b"}, {}] %1 out_sharding=<@m, [{}, {}]> :T""",
    "a named computation": """%0 = sdy.named_computation<"n">(%a) in_shardings=[<@m, [{"a"}, {}]>] out_shardings=[<@m, [{}, {}]>] (%b :T) {
    %1 = sdy.all_gather [{"a"}, {}] %b out_sharding=<@m, [{}, {}]> :T
    sdy.return %1 :T
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>""",
    "a function": "%0 = func.call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>",
}  # fmt: skip
"""What stands on an argument that is split into more parts than it has elements."""

_CUT_UNREDUCED = {
    "all_reduce": '%0 = sdy.all_reduce {"b"} %a out_sharding=<@m, [{"a"}, {}]> :T',
    "reduce_scatter": '%0 = sdy.reduce_scatter [{}, {"b"}] %a out_sharding=<@m, [{"a"}, {"b"}]> :T',
}

_OTHERWISE = {
    "an argument that was open": (
        '[{"b", ?}, {}]',
        """%0 = sdy.all_gather [{"b"}, {}] %a out_sharding=<@m, [{}, {}]> :T
  %1 = sdy.sharding_constraint %a <@m, [{"b", "c"}, {}]> :T""",
    ),
    "a result that was open": (
        '[{"b"}, {}]',
        """%0 = sdy.all_gather [{"b"}, {}] %a out_sharding=<@m, [{?}, {?}]> :T
  %1 = sdy.sharding_constraint %0 <@m, [{"c"}, {"b"}]> :T""",
    ),
    "a value of which nothing was said": (
        '[{"b"}, {}]',
        """%1 = stablehlo.tanh %a :T
  %0 = sdy.all_slice [{}, {"c"}] %1 out_sharding=<@m, [{}, {"c"}]> :T""",
    ),
    "axes of size 1": ('[{"b", "one"}, {}]', '%0 = sdy.all_gather [{"one"}, {}] %a out_sharding=<@m, [{"b"}, {}]> :T'),
}

_CASES = {
    **{what: ('[{"a"}, {}]', body) for what, body in _CUT.items()},
    **{what: (_UNREDUCED, body) for what, body in _CUT_UNREDUCED.items()},
    **_OTHERWISE,
}


def _text(sharding: str, body: str) -> str:
    text = f"""sdy.mesh @m = <["a"=16, "b"=2, "c"=2, "one"=1]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, {sharding}>}}) -> tensor<8x8xf32> {{
  {body}
  %z = stablehlo.negate %0 :T
  return %z :T
}}
func.func private @f(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"a"}}, {{}}]>}}) -> tensor<8x8xf32> {{
  %0 = sdy.all_gather [{{"a"}}, {{}}] %a out_sharding=<@m, [{{}}, {{}}]> :T
  return %0 :T
}}
"""
    return text.replace(":T", ": tensor<8x8xf32>").replace("UNREDUCED", _UNREDUCED)


@pytest.mark.parametrize("what", _CASES)
def test_a_collective_that_does_not_fit_any_more_is_written_as_the_reshard_that_it_means(what: str) -> None:
    plan = sw.load(_text(*_CASES[what])).shard()
    again = sw.load(plan.module())
    assert "sdy.reshard" in {op.name for op in again.graph.walk()}
    assert again.graph.stage is Stage.ANNOTATED
    assert again.shard().partition().verify().ok


@pytest.mark.parametrize("what", ["an argument that was open", "a value of which nothing was said"])
def test_so_it_is_where_the_rfc_completes(what: str) -> None:
    again = sw.load(sw.load(_text(*_CASES[what])).shard(strategy="rfc").module())
    assert again.shard(strategy="rfc").partition().verify().ok


def test_inside_a_manual_computation() -> None:
    body = """%m = sdy.manual_computation(%a) in_shardings=[<@m, [{"a"}, {"b"}]>] out_shardings=[<@m, [{"a"}, {"b"}]>]
      manual_axes={"b"} (%x: tensor<8x4xf32>) {
    %1 = sdy.all_gather [{"a"}, {}] %x out_sharding=<@m, [{}, {}]> : tensor<8x4xf32>
    sdy.return %1 : tensor<8x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = sdy.all_gather [{}, {"b"}] %m out_sharding=<@m, [{"a"}, {}]> :T"""
    again = sw.load(sw.load(_text('[{"a"}, {"b"}]', body)).shard().module())
    assert [op.name for op in again.graph.walk()].count("sdy.reshard") == 2


def test_a_collective_that_fits_stays() -> None:
    gathered = '%0 = sdy.all_gather [{"b"}, {}] %a out_sharding=<@m, [{}, {}]> :T'
    assert "sdy.all_gather" in sw.load(_text('[{"b"}, {}]', gathered)).shard().module()


def test_a_reduction_by_maximum_forgets_what_it_was_written_as() -> None:
    reduced = '%0 = sdy.all_reduce max {"b"} %a out_sharding=<@m, [{"a"}, {}]> :T'
    module = sw.load(_text('[{"a"}, {}], unreduced=max{"b"}', reduced)).shard().module()
    assert [op.name for op in sw.load(module).graph.walk()].count("sdy.reshard") == 1


def test_a_program_with_a_reshard_is_not_explicit() -> None:
    body = """%0 = sdy.all_gather [{"b"}, {}] %a out_sharding=<@m, [{}, {}]> :T
  %1 = sdy.reshard %0 <@m, [{"c"}, {"b"}]> :T
  return %1 :T }"""
    text = _text('[{"b"}, {}]', body).split("\n  %z")[0]
    assert sw.load(text).graph.stage is Stage.ANNOTATED
    assert sw.load(text).shard().partition().verify().ok


def test_a_collective_that_never_fitted_is_refused() -> None:
    wrong = '%0 = sdy.all_gather [{"b"}, {}] %a out_sharding=<@m, [{"a"}, {}]> :T'
    with pytest.raises(ShardingError, match="doesn't match expected sharding"):
        sw.load(_text('[{"b"}, {}]', wrong))
