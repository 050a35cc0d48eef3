"""This jaxlib has no such pass: by Shardy's description of it, and what it must not refuse."""

from __future__ import annotations

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.passes.registry import Pass, pass_named

_SUM = '#sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>'
_DOT = f"""
  %p = stablehlo.dot %a, %a {{sdy.sharding = {_SUM}}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
"""


def _refusals(body: str, result: str = "tensor<8x8xf32>", more: str = "") -> list[str]:
    """What the pass says against a module, if anything."""
    entry = pass_named("sdy-verify-unreduced-axes")
    assert isinstance(entry, Pass)
    text = f"""
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>) -> ({result}) {{
  {body}
}}
{more}
"""
    try:
        entry.apply(load_module(text), entry.defaults())
    except ShardingError as error:
        assert error.diagnostic.location
        return [error.diagnostic.message]
    return []


def _error(body: str, result: str = "tensor<8x8xf32>", more: str = "") -> str:
    (message,) = _refusals(body, result, more)
    return message


def test_a_dot_may_leave_axes_unreduced_and_a_reshard_reduces_them() -> None:
    assert (
        _refusals(f"{_DOT} %r = sdy.reshard %p <@mesh, [{{}}, {{}}]> : tensor<8x8xf32> return %r : tensor<8x8xf32>")
        == []
    )


def test_an_op_that_drops_an_axis_is_refused() -> None:
    message = _error(f"{_DOT} %r = stablehlo.abs %p : tensor<8x8xf32> return %r : tensor<8x8xf32>")
    assert message == (
        "'stablehlo.abs' op dropped unreduced axis 'x' without a blessed operation (e.g., sdy.reshard). "
        "This is an invalid transition from unreduced to reduced."
    )


def test_an_op_that_passes_an_axis_on_is_accepted_up_to_the_result() -> None:
    body = f"{_DOT} %r = stablehlo.add %p, %p {{sdy.sharding = {_SUM}}} : tensor<8x8xf32> return %r : tensor<8x8xf32>"
    result = 'tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}'
    assert _refusals(body.replace("%p, %p", "%p, %a"), result) == []
    assert "'func.return' op has unreduced axes mismatch for 'x'" in _error(body.replace("%p, %p", "%p, %a"))


def test_other_kinds_of_reduction_count_too() -> None:
    carried = r'["#sdy.sharding<@mesh, [{}, {}], unreduced=max{\22y\22}>"]'
    body = f"%p = stablehlo.abs %a {{shardwright.shardings = {carried}}} : tensor<8x8xf32>"
    assert "unreduced axis 'y'" in _error(f"{body} %r = stablehlo.abs %p : tensor<8x8xf32> return %r : tensor<8x8xf32>")


@pytest.mark.parametrize("body_of", ["stablehlo.reduce", "stablehlo.while"])
def test_what_a_region_returns_to_no_result_is_not_compared_with_one(body_of: str) -> None:
    """The terminators of a reduction's body and of a loop's condition give scalars to the op itself."""
    reduced = '#sdy.sharding_per_value<[<@mesh, [{}], unreduced={"x"}>]>'
    bodies = {
        "stablehlo.reduce": f"""
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %p = "stablehlo.reduce"(%a, %z) ({{
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) {{dimensions = array<i64: 1>, sdy.sharding = {reduced}}} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %a : tensor<8x8xf32>""",
        "stablehlo.while": f"""{_DOT}
  %w = stablehlo.while(%i = %p) : tensor<8x8xf32> attributes {{sdy.sharding = {_SUM}}} cond {{
    %c = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    stablehlo.return %i : tensor<8x8xf32>
  }}
  return %a : tensor<8x8xf32>""",
    }
    assert _refusals(bodies[body_of]) == []


def test_a_loop_that_reduces_what_it_carries_is_refused() -> None:
    message = _error(f"""{_DOT}
  %w = stablehlo.while(%i = %p) : tensor<8x8xf32> attributes {{sdy.sharding = {_SUM}}} cond {{
    %c = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %r = sdy.reshard %i <@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
    stablehlo.return %r : tensor<8x8xf32>
  }}
  return %a : tensor<8x8xf32>""")
    assert message.startswith("'stablehlo.return' op has unreduced axes mismatch for 'x'")


def test_calls_agree_with_functions_on_arguments_and_results() -> None:
    function = "func.func private @f(%b: tensor<8x8xf32>) -> tensor<8x8xf32> { return %b : tensor<8x8xf32> }"
    call = "call @f({}) : (tensor<8x8xf32>) -> tensor<8x8xf32> return %a : tensor<8x8xf32>"
    assert _refusals(f"%r = {call.format('%a')}", more=function) == []
    assert _error(f"{_DOT} %r = {call.format('%p')}", more=function) == (
        "'func.call' op has unreduced axes mismatch for 'x' at call argument 0."
    )
    annotated = call.format("%a").replace(" : (", f" {{sdy.sharding = {_SUM}}} : (", 1)
    assert _error(f"%r = {annotated}", more=function) == (
        "'func.call' op has unreduced axes mismatch for 'x' at call result 0."
    )


def test_manual_axes_are_not_seen_inside_a_manual_computation() -> None:
    body = f"""{_DOT}
  %m = sdy.manual_computation(%p) in_shardings=[<@mesh, [{{}}, {{}}], unreduced={{"x"}}>] out_shardings=[<@mesh, [{{}}, {{}}]>]
      manual_axes={{"x"}} (%b: tensor<8x8xf32>) {{
    %s = stablehlo.abs %b : tensor<8x8xf32>
    sdy.return %s : tensor<8x8xf32>
  }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %m : tensor<8x8xf32>"""
    assert _refusals(body) == []
    message = _error(body.replace('manual_axes={"x"}', "manual_axes={}"))
    assert message.startswith("'stablehlo.abs' op dropped unreduced axis 'x'")
