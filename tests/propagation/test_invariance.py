"""What must not matter to propagation: that it has been done, and what things are called or numbered."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from shardwright.propagation.effects import is_pure
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program

_EXAMPLES = int(os.environ.get("SHARDWRIGHT_FUZZ", "40"))
_seeds = st.integers(0, 1_000_000)
_STRATEGIES = ("user-priority", "cost")


@pytest.mark.parametrize("strategy", _STRATEGIES)
@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds, st.booleans())
def test_propagating_again_changes_nothing(strategy: str, seed: int, as_compiled: bool) -> None:
    once = propagate(read(load_module(random_program(seed))), strategy=strategy, as_compiled=as_compiled)
    assert _described(propagate(once, strategy=strategy, as_compiled=as_compiled)) == _described(once)


def _described(graph: Graph) -> list[tuple[object, ...]]:
    """Ops that depend on arguments, with the shardings of their results, and those of the results of main.

    Constant expressions are copied for each use and merged where alike, by us and by the C++, which may turn out
    otherwise the second time: there reshards stand where constraints stood.
    """
    depends = set(graph.main.block.arguments)
    described: list[tuple[object, ...]] = [tuple(graph.main.result_shardings)]
    for op in graph.walk():
        depends.update(value for block in op.regions for value in block.arguments)
        if depends.isdisjoint(op.operands) and not op.regions:
            continue
        depends.update(op.results)
        described.append((op.signature, *(graph.shardings[value] for value in op.results)))
    return described


@pytest.mark.parametrize("strategy", _STRATEGIES)
@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_numbers_of_values_do_not_matter(strategy: str, seed: int) -> None:
    graph = read(load_module(random_program(seed)))
    other = _renumbered(graph, random.Random(seed))
    assert str(write(propagate(other, strategy=strategy))) == str(write(propagate(graph, strategy=strategy)))


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_names_of_meshes_and_values_do_not_matter(seed: int) -> None:
    text = random_program(seed)
    named = text.replace("@mesh", "@grid").replace("%v", "%value_").replace("%a", "%input_")
    here = str(write(propagate(read(load_module(text)))))
    assert str(write(propagate(read(load_module(named))))) == here.replace("@mesh", "@grid")


@settings(max_examples=_EXAMPLES, deadline=None)
@given(_seeds)
def test_the_order_of_independent_ops_does_not_matter_to_users(seed: int) -> None:
    text = wide_program(seed)
    graph = read(load_module(text))
    other = graph.skeleton()
    other.types, other.shardings = graph.types, graph.shardings
    ops = _shuffled(graph.main.block.ops, random.Random(seed))
    other.main.block = Block(graph.main.block.arguments, ops)
    here, there = (propagate(each, as_compiled=True) for each in (graph, other))
    assert there.shardings == here.shardings
    assert there.main.result_shardings == here.main.result_shardings
    position = {op.results: index for index, op in enumerate(ops) if op.results}
    kept = [position[op.results] for op in there.main.block.ops if op.results in position and not _is_constant(op, ops)]
    assert kept == sorted(kept) or "sharding_constraint" in text, "ops are where they were written"


def _is_constant(op: Op, ops: Sequence[Op]) -> bool:
    """Whether an op depends on no argument: constants that are alike are merged where the first of them is read."""
    makers = {value: maker for maker in ops for value in maker.results}
    return all(value in makers and _is_constant(makers[value], ops) for value in _reads(op))


def _shuffled(ops: Sequence[Op], chance: random.Random) -> list[Op]:
    """The ops in another order in which each comes after what it reads; what nobody reads, or has effects, stays so.

    Of ops with effects, the order is part of the program.
    """
    makers = {value: index for index, op in enumerate(ops) for value in op.results}
    reads = [{makers[value] for value in _reads(op) if value in makers} for op in ops]
    read = set().union(*reads)
    fixed = [index for index, op in enumerate(ops) if index not in read or not is_pure(op)]
    for before, after in itertools.pairwise(fixed):
        reads[after].add(before)
    order: list[int] = []
    left = set(range(len(ops)))
    while left:
        chosen = chance.choice(sorted(index for index in left if reads[index] <= set(order)))
        order.append(chosen)
        left.remove(chosen)
    return [ops[index] for index in order]


def _reads(op: Op) -> Iterator[int]:
    """What an op reads, also within its regions."""
    yield from op.operands
    for region in op.regions:
        for inner in region.ops:
            yield from _reads(inner)


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
