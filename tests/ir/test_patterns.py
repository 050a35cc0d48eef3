"""Patterns are applied until none of them finds anything, and no longer."""

from __future__ import annotations

import doctest
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardwright.ir
from shardwright.ir.context import load_module
from shardwright.ir.graph import Op
from shardwright.ir.rewrite.patterns import Pattern, apply_patterns
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.rewrite.uses import Uses
from shardwright.notation.modules import read, write
from tests.ir.random_programs import ARITHMETIC, computed, ill_placed, random_graph, signature


def _erase_dead(op: Op, rewriter: Rewriter) -> bool:
    if rewriter.uses.is_read(op):
        return False
    rewriter.erase(op, "nobody reads it")
    return True


def _cancel_negations(op: Op, rewriter: Rewriter) -> bool:
    inner = rewriter.maker(op.operands[0])
    if inner is None or inner.name != "stablehlo.negate":
        return False
    rewriter.replace(op, inner.operands, "two negations cancel")
    return True


def _add_twice(op: Op, rewriter: Rewriter) -> bool:
    """`x + x` is `2 x`: another op in its place, which its readers have to be looked at again for."""
    left, right = op.operands
    if left != right:
        return False
    point = rewriter.before(op)
    negative = rewriter.create(signature("stablehlo.negate"), (left,), point, "test")
    positive = rewriter.create(signature("stablehlo.negate"), negative.results, point, "test")
    zero = rewriter.create(signature("stablehlo.add"), (left, negative.results[0]), point, "test")
    twice = rewriter.create(signature("stablehlo.add"), (zero.results[0], positive.results[0]), point, "test")
    more = rewriter.create(signature("stablehlo.add"), (twice.results[0], left), point, "test")
    rewriter.replace(op, more.results, "test")
    return True


PATTERNS = [
    Pattern(("stablehlo.negate",), _cancel_negations),
    Pattern(("stablehlo.add",), _add_twice),
    Pattern((*ARITHMETIC, "stablehlo.constant", "stablehlo.case"), _erase_dead),
]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_fixpoint_computes_the_same_and_no_pattern_applies(random: Random) -> None:
    graph = random_graph(random)
    before = computed(graph, (3, 0))
    with Rewriter(graph, graph.main.block) as rewriter:
        changed = apply_patterns(rewriter, PATTERNS)
    assert (changed == 0) == (not rewriter.changes)
    assert computed(graph, (3, 0)) == before
    assert not list(ill_placed(graph.main.block))
    assert write(graph).operation.verify()
    found = Uses(graph.main.block, len(graph.types))
    assert all(rewriter.uses[value] == found[value] for value in range(len(graph.types)))
    with Rewriter(graph, graph.main.block) as again:
        assert apply_patterns(again, PATTERNS) == 0
    assert all(again.uses.is_read(op) for op in graph.walk() if op.results)


def test_patterns_that_undo_each_other_are_found_out() -> None:
    graph = read(
        load_module("""
func.func @main(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.add %a, %b : tensor<i32>
  return %0 : tensor<i32>
}""")
    )

    def swap(op: Op, rewriter: Rewriter) -> bool:
        rewriter.set_operands(op, op.operands[::-1], "the other way round")
        return True

    with (
        Rewriter(graph, graph.main.block) as rewriter,
        pytest.raises(RuntimeError, match=r"find no end: the last of 33 changes was of %2 = stablehlo.add\(%1, %0\)"),
    ):
        apply_patterns(rewriter, [Pattern(("stablehlo.add",), swap)])
    assert write(graph).operation.verify()


def test_a_pattern_looks_at_ops_of_its_names_only_the_last_first() -> None:
    graph = random_graph(Random(7))
    seen: list[Op] = []

    def look(op: Op, rewriter: Rewriter) -> bool:
        seen.append(op)
        return False

    with Rewriter(graph, graph.main.block) as rewriter:
        apply_patterns(rewriter, [Pattern(("stablehlo.add", "stablehlo.case"), look)])
    assert seen == [op for op in graph.walk() if op.name in ("stablehlo.add", "stablehlo.case")][::-1]
    assert not rewriter.changes


def test_of_the_ops_that_wait_a_pattern_looks_at_the_last_and_sees_the_others() -> None:
    graph = random_graph(Random(7))
    adds = [op for op in graph.walk() if op.name == "stablehlo.add"]
    waiting = dict.fromkeys(adds[1:])
    seen: list[list[Op]] = []

    def look(op: Op, rewriter: Rewriter) -> bool:
        seen.append([*waiting, op])
        return False

    with Rewriter(graph, graph.main.block) as rewriter:
        apply_patterns(rewriter, [Pattern(("stablehlo.add",), look)], waiting=waiting)
    assert seen == [adds[1 : len(adds) - number] for number in range(len(adds) - 1)]


def test_the_example_of_the_readme_runs() -> None:
    readme = Path(shardwright.ir.__file__).with_name("README.md")
    assert doctest.testfile(str(readme), module_relative=False) == (0, 9)
