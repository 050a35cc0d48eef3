"""What is computed several times is told: of documents that say that nothing is, and of programs made to."""

from __future__ import annotations

import pytest

from shardwright.assess.work import OpWork, works
from shardwright.ir.graph import Graph
from shardwright.program import load
from tests.notation.snippets_slides import SLIDES

_PRODUCTS, _MAXIMUM = 2 * (2 * 4 * 8 * 32), 2 * 4 * 32
"""Multiply-adds of the two products of the walkthrough, and elements of what stands between them."""


def _slide(title: str) -> Graph:
    (snippet,) = [one for one in SLIDES if one.origin == f"slides, {title}"]
    return load(snippet.module).plan().partition().explicit


def _explicit(text: str) -> Graph:
    return load(text).plan().partition().explicit


def _program(body: str, argument: str, types: str = "tensor<8x8xf32>") -> str:
    return f"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {argument}>}}) -> {types} {{
{body}
}}"""


def _only(graph: Graph, op: str) -> OpWork:
    (one,) = [one for one in works(graph)[0] if one.op == op]
    return one


def test_slides_analysis_has_no_redundant_computation() -> None:
    found, unknown = works(_slide("analysis (the same program)"))
    assert not unknown
    assert sum(one.needed for one in found) == _PRODUCTS + _MAXIMUM
    assert [one.copies for one in found] == [1.0] * len(found)


def test_before_its_collectives_are_optimized_the_maximum_is_computed_twice() -> None:
    found, _ = works(_slide("2-D weight stationary, materialized"))
    assert {one.op: one.copies for one in found if one.wasted} == {"stablehlo.maximum": 2.0}
    assert sum(one.wasted for one in found) == _MAXIMUM


@pytest.mark.parametrize(("argument", "copies"), [("[{}, {}]", 4.0), ('[{"x"}, {}]', 2.0), ('[{"x"}, {"y"}]', 1.0)])
def test_what_lies_whole_along_axes_is_computed_by_all_devices_along_them(argument: str, copies: float) -> None:
    graph = _explicit(_program("%0 = stablehlo.tanh %a : tensor<8x8xf32>\n return %0 : tensor<8x8xf32>", argument))
    assert _only(graph, "stablehlo.tanh") == OpWork(
        "stablehlo.tanh", _only(graph, "stablehlo.tanh").location, 1.0, 64.0, 64.0 * copies
    )


def test_what_only_moves_elements_or_is_made_of_nothing_does_not_count() -> None:
    body = """  %i = stablehlo.iota dim = 0 : tensor<8x8xf32>
  %p = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = stablehlo.concatenate %i, %p, dim = 0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %c : tensor<16x8xf32>"""
    assert works(_explicit(_program(body, "[{}, {}]", "tensor<16x8xf32>"))) == ([], 0)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    body = """  %first = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<5> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%v = %a, %n = %first) : tensor<8x8xf32>, tensor<i32> cond {
    %t = stablehlo.compare LT, %n, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %t = stablehlo.tanh %v : tensor<8x8xf32>
    %m = stablehlo.add %n, %one : tensor<i32>
    stablehlo.return %t, %m : tensor<8x8xf32>, tensor<i32>
  }
  return %r#0 : tensor<8x8xf32>"""
    one = _only(_explicit(_program(body, '[{"x"}, {}]')), "stablehlo.tanh")
    assert (one.runs, one.copies, one.wasted) == (5.0, 2.0, 5 * 64.0)


def test_of_what_is_written_for_the_devices_it_is_not_known() -> None:
    body = """  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
      manual_axes={"x"} (%b: tensor<4x8xf32>) {
    %1 = stablehlo.tanh %b : tensor<4x8xf32>
    sdy.return %1 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>"""
    assert works(_explicit(_program(body, '[{"x"}, {}]'))) == ([], 1)
