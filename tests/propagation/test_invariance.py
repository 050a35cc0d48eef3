"""What must not matter to propagation: that it has been done, and what things are called or numbered."""

from __future__ import annotations

import os
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.propagation.programs import random_program

_EXAMPLES = int(os.environ.get("SHARDWRIGHT_FUZZ", "40"))
_seeds = st.integers(0, 1_000_000)


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_propagating_again_changes_nothing(seed: int) -> None:
    once = propagate(read(load_module(random_program(seed))))
    assert _said(propagate(once)) == _said(once)


def _said(graph: Graph) -> list[tuple[object, ...]]:
    """Ops that depend on arguments, with the shardings of their results, and those of the results of main.

    Constant expressions are copied for each use and merged where alike, by us and by the C++, which may turn out
    otherwise the second time: there reshards stand where constraints stood.
    """
    depends = set(graph.main.block.arguments)
    found: list[tuple[object, ...]] = [tuple(graph.main.result_shardings)]
    for op in graph.walk():
        depends.update(value for block in op.regions for value in block.arguments)
        if depends.isdisjoint(op.operands) and not op.regions:
            continue
        depends.update(op.results)
        found.append((op.signature, *(graph.shardings[value] for value in op.results)))
    return found


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_numbers_of_values_do_not_matter(seed: int) -> None:
    graph = read(load_module(random_program(seed)))
    other = _renumbered(graph, random.Random(seed))
    assert str(write(propagate(other))) == str(write(propagate(graph)))


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_names_of_meshes_and_values_do_not_matter(seed: int) -> None:
    text = random_program(seed)
    named = text.replace("@mesh", "@grid").replace("%v", "%value_").replace("%a", "%input_")
    here = str(write(propagate(read(load_module(text)))))
    assert str(write(propagate(read(load_module(named))))) == here.replace("@mesh", "@grid")


def _renumbered(graph: Graph, chance: random.Random) -> Graph:
    count = len(graph.types)
    numbers = list(range(count))
    chance.shuffle(numbers)
    made = graph.skeleton()
    made.types = [graph.types[numbers.index(value)] for value in range(count)]
    made.shardings = [graph.shardings[numbers.index(value)] for value in range(count)]
    made.main.block = _block(graph.main.block, numbers)
    return made


def _block(block: Block, numbers: list[int]) -> Block:
    def moved(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(numbers[value] for value in values)

    ops = [
        Op(
            op.signature,
            moved(op.operands),
            moved(op.results),
            tuple(_block(region, numbers) for region in op.regions),
            op.location,
        )
        for op in block.ops
    ]
    return Block(moved(block.arguments), ops)
