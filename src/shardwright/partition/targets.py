"""The layouts that a propagated program asks for: its shardings, cut to what divides each tensor.

Uneven are arguments that are padded, and results that are cut, by ops that leave all shards as they are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from copy import copy
from dataclasses import replace
from operator import is_not

from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.decisions import Layout
from shardwright.partition.localize.uneven import enters, leaves
from shardwright.partition.meshes import mesh_of_program
from shardwright.sharding import TensorSharding, interned, replicated

__all__ = ["Targets", "layout_of"]


class Targets:
    """What a graph asks for.

    Attributes:
        mesh: The mesh of the module.
        arguments: The layout in which each argument comes: it may be partial.
        results: The layout in which each result is returned.
        contributions: Values that are returned as contributions and in no other way, and how they lie then.
        uses: How many operands read each value.
        alike: For each value what is asked of it: of those of one type of which this is equal the same is asked, and
            none, one or several operands read each of them.
        is_inside: Whether they are those of the body of a manual computation, be it along axes of size 1 alone.
    """

    is_inside = False

    def __init__(self, graph: Graph) -> None:
        """Read the shardings of `graph`; ShardingError where it has no mesh."""
        self._graph = graph
        self.mesh = mesh_of_program(graph)
        main = graph.main
        arguments, returned = main.block.arguments, main.block.terminator.operands
        stated = [graph.shardings[value] for value in arguments]
        self._uneven = _uneven(graph)
        self._inside: dict[tuple[str, ...], Targets] = {}
        self._layouts = self._of_all()
        self.arguments = tuple(map(_with_contributions, self.of(arguments), stated))
        self.results = tuple(map(self._returned, returned, main.result_shardings))
        self.contributions = {
            value: layout
            for value, layout in zip(returned, self.results, strict=True)
            if layout is not None and layout.partial and returned.count(value) == 1
        }
        self.uses = _count_uses(graph)
        self.alike = self._numbers()

    def inside(self, manual: tuple[str, ...]) -> Targets:
        """What the body of a computation that is manual along these axes asks for."""
        mesh = self.mesh.inside(manual)
        made = self._inside.get(mesh.manual)
        if made is None:
            made = self._inside[mesh.manual] = copy(self)
            made.mesh, made._uneven, made.contributions, made.is_inside = mesh, {}, {}, True
            made._layouts = made._of_all()
        return made

    def changed(self, graph: Graph, layouts: list[Layout], uses: list[int]) -> Targets:
        """What a graph asks for that has the same values, no contributions, and all dimensions even.

        Arguments:
            graph: The graph.
            layouts: The layout of each value that propagation gave it.
            uses: How many operands read each value.
        """
        main, made = graph.main, copy(self)
        made._graph, made._layouts, made.uses, made._inside = graph, layouts, uses, {}
        made._uneven, made.contributions = {}, {}
        made.arguments = made.of(main.block.arguments)
        results, stated, before = list(self.results), main.result_shardings, self._graph.main.result_shardings
        for number in itertools.compress(itertools.count(), map(is_not, stated, before)):
            results[number] = made._returned(main.block.terminator.operands[number], stated[number])
        made.results = tuple(results)
        return made

    def of(self, values: tuple[int, ...]) -> tuple[Layout, ...]:
        """The layouts that propagation gave these values."""
        return tuple(map(self._layouts.__getitem__, values))

    def layout(self, value: int) -> Layout:
        """The layout that propagation gave a value."""
        return self._layouts[value]

    def _of_all(self) -> list[Layout]:
        """The layout of every value: most have one of few objects for their sharding, and for their type."""
        shardings, types = self._graph.shardings, self._graph.types
        keys = list(zip(map(id, shardings), map(id, types), strict=True))
        different = dict(zip(keys, zip(shardings, types, strict=True), strict=True))
        layouts = {key: layout_of(sharding, type, self.mesh) for key, (sharding, type) in different.items()}
        of_all = list(map(layouts.__getitem__, keys))
        for value, layout in self._uneven.items():
            of_all[value] = layout
        return of_all

    @property
    def is_even(self) -> bool:
        """Whether all layouts divide their tensors."""
        return not self._uneven

    def _numbers(self) -> list[int]:
        """What tells what is asked of a value: which layout it has, as most values have one of few."""
        numbers = [id(layout) << 2 | min(uses, 2) for layout, uses in zip(self._layouts, self.uses, strict=True)]
        for value in (*self._uneven, *self.contributions):
            numbers[value] = -1 - value
        return numbers

    def contributed(self, values: tuple[int, ...], layouts: tuple[Layout, ...]) -> tuple[Layout, ...]:
        """`layouts` of values, but where these are returned as contributions as they lie then."""
        return tuple(map(self.contributions.get, values, layouts)) if self.contributions else layouts

    def _returned(self, value: int, stated: TensorSharding | None) -> Layout:
        if stated is None or value in self._uneven:
            return self.layout(value)
        return _with_contributions(layout_of(stated, self._graph.types[value], self.mesh), stated)


@memoize
def layout_of(sharding: TensorSharding | None, type: TensorType, mesh: Mesh) -> Layout:
    """The layout that a sharding asks for, cut to what divides. What is to be on one device is on all: each runs every
    op.

    That a value may be unreduced is no wish for contributions to be made: what is partial stays so until it is read.
    """
    if not type.is_tensor:
        return None
    if sharding is None or not sharding.mesh.axes:
        return replicated(mesh, type.rank)
    if mesh.manual:
        sharding = replace(sharding, mesh=sharding.mesh.inside(mesh.manual))
    layout = sharding.closed().evenly_dividing(type.dims)
    return layout.with_axes(layout.axes) if layout.partial else interned(layout)


def _uneven(graph: Graph) -> dict[int, TensorSharding]:
    """The uneven arguments and results that only the ops at the boundary read and make, and how they lie."""
    main = graph.main
    last = main.block.terminator
    kept: dict[int, TensorSharding] = {}
    for value in (*main.block.arguments, *last.operands):
        sharding = graph.shardings[value]
        if sharding is not None and _may_stay_uneven(sharding, graph.types[value]):
            kept[value] = sharding.closed()
    if not kept:
        return kept
    there = set(main.block.arguments)
    for op in graph.walk():
        operands, results = ([graph.shardings[value] for value in values] for values in (op.operands, op.results))
        if leaves(op.signature, operands, results):
            there.update(op.results)
        elif op is not last and not enters(op.signature, operands, results):
            for value in kept.keys() & set(op.operands):
                del kept[value]
    for value, stated in zip(last.operands, main.result_shardings, strict=True):
        if value in kept and (value not in there or (stated is not None and stated.closed() != kept[value])):
            del kept[value]
    return kept


@memoize
def _may_stay_uneven(sharding: TensorSharding, type: TensorType) -> bool:
    """Whether a sharding does not divide its tensor, and is of a kind that the ops at the boundary know."""
    known = type.is_tensor and not sharding.mesh.is_maximal and not sharding.partial
    return known and not sharding.divides(type.dims)


def _with_contributions(layout: Layout, stated: TensorSharding | None) -> Layout:
    """A layout with the contributions that are stated where the program begins or ends: its caller counts on them."""
    if layout is None or stated is None or not stated.partial:
        return layout
    return layout.with_axes(layout.axes, stated.partial).closed()


def _count_uses(graph: Graph) -> list[int]:
    """How many operands read each value."""
    reading = [op.operands for op in graph.walk() if op.signature.name != "sdy.sharding_group"]
    uses = Counter(itertools.chain.from_iterable(reading))
    return list(map(uses.get, range(len(graph.types)), itertools.repeat(0)))
