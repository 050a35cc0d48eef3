"""Functions that others call: those that custom calls name survive, and groups have members in several."""

from __future__ import annotations

import re

import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from tests.passes.differential import Job, ours
from tests.passes.piped import assert_alike

_T = "tensor<8xf32>"


def _function(name: str, body: str) -> str:
    return f"func.func private @{name}(%y: {_T}) -> {_T} {{ %0 = {body} : ({_T}) -> {_T} return %0 : {_T} }}\n"


def _custom_call(name: str, operand: str) -> str:
    return f"stablehlo.custom_call @run({operand}) {{called_computations = [@{name}]}} : ({_T}) -> {_T}\n"


_FUNCTIONS = (
    'sdy.mesh @mesh = <["x"=4]>\n'
    + _function("inner", "stablehlo.negate %y")
    + _function("named", "func.call @inner(%y)")
    + _function("only_called", "func.call @deeper(%y)")
    + _function("deeper", "stablehlo.cosine %y")
)
_ENTRY = (
    f'func.func @entry(%x: {_T} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> {_T} {{\n'
    f"  %0 = {_custom_call('named', '%x')}"
    f"  %1 = func.call @named(%0) : ({_T}) -> {_T}\n"
    f"  %2 = func.call @only_called(%1) : ({_T}) -> {_T}\n"
    f"  return %2 : {_T}\n}}\n"
)


def _names(text: str) -> set[str]:
    return set(re.findall(r"func\.func (?:\w+ )?@(\w+)", text))


@pytest.mark.parametrize("entry", ["main", "entry"])
def test_functions_that_only_calls_named_go_and_others_stay(entry: str) -> None:
    text = ours(Job(_FUNCTIONS + _ENTRY.replace("@entry", f"@{entry}"), "sdy-convert-global-to-local"))
    assert _names(text) == {entry, "named", "inner"}
    assert "called_computations = [@named]" in text
    assert "tensor<2xf32>" in text.split(f"func.func @{entry}(")[1]


def test_without_main_what_a_custom_call_names_is_no_entry() -> None:
    annotation = '{sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2, ?}]>}'
    named = f"func.func @named(%y: {_T} {annotation}) -> {_T} {{ return %y : {_T} }}\n"
    entry = (
        f"func.func @entry(%x: {_T} {annotation}) -> {_T} {{ %0 = {_custom_call('named', '%x')} return %0 : {_T} }}\n"
    )
    text = ours(Job('sdy.mesh @mesh = <["x"=4]>\n' + named + entry, "sdy-remove-sub-axes-in-input-output-shardings"))
    assert '{"x":(1)2, ?}' in text.split("@named(")[1]
    assert '{"x":(1)2, ?}' not in text.split("func.func @entry(")[1].split("->")[0]


_CONTRADICTED = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func private @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b"}]>},
    %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>}) {
  sdy.sharding_group %a group_id=1 : tensor<8x8xf32>
  sdy.sharding_group %b group_id=1 : tensor<8x8xf32>
  return
}
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>}) -> tensor<8x8xf32> {
  sdy.sharding_group %a group_id=1 : tensor<8x8xf32>
  return %a : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
@pytest.mark.parametrize("edges", ["", "sdy-add-func-data-flow-edges,"])
def test_of_a_group_that_contradicts_itself_the_function_that_stands_first_decides(edges: str) -> None:
    for name in ("basic", "user-priority"):
        assert assert_alike([_CONTRADICTED], f"sdy-sharding-group-import,{edges}sdy-{name}-propagate") == 1


_READ_TWICE = """sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
func.func private @f(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %a, %0 : tensor<8x8xf32>
  %2 = sdy.sharding_constraint %b <@mesh, [{}, {"c", ?}]> : tensor<8x8xf32>
  %3 = stablehlo.dot %b, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @g(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.dot %b, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.dot %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.sharding_constraint %0 <@mesh, [{}, {}]> : tensor<8x8xf32>
  return %1, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @h(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0:2 = call @g(%a, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %1 = sdy.sharding_constraint %a <@mesh, [{"a"}, {}]> : tensor<8x8xf32>
  return %0#1 : tensor<8x8xf32>
}
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8x8xf32>
  %1:2 = call @f(%a, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %0 : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
@pytest.mark.parametrize(
    "passes",
    ["sdy-add-func-data-flow-edges,sdy-basic-propagate", "sdy-propagation-pipeline{dedup-functions-fully=true}"],
)
def test_values_are_read_in_the_order_that_passes_before_have_left(passes: str) -> None:
    assert assert_alike([_READ_TWICE], passes) == 1


_RETURNED_TO_TWO = """sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func private @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  return %a : tensor<8x8xf32>
}
func.func private @g(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"b", ?}]>}) -> tensor<8x8xf32> {
  return %a : tensor<8x8xf32>
}
func.func private @h(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.dot %FIRST, %SECOND : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = call @f(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @g(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
@pytest.mark.parametrize(("first", "second"), ["01", "10"])
def test_what_a_function_returns_reaches_the_last_of_its_calls_first(first: str, second: str) -> None:
    """A product of both results is split along what the first to come says."""
    text = _RETURNED_TO_TWO.replace("FIRST", first).replace("SECOND", second)
    for name in ("basic", "aggressive"):
        assert assert_alike([text], f"sdy-add-func-data-flow-edges,sdy-{name}-propagate") == 1
