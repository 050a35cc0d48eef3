"""Programs that others made explicit, as Shardy's own passes do, taken by our passes.

A program that satisfies `partition.check` is explicit and stays. In Shardy's form sums are implied: the result of a
product that is split along what it contracts is not declared unreduced, and yet an `sdy.all_reduce` follows it. Shards
need not divide, and an argument or value of which nothing is said is replicated. Such a program means what it says
globally, where no collective changes a value: each asks for the layout of its result, and our stages choose the
communication anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.ops import MANUAL
from shardwright.partition import materialize
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

__all__ = ["Said", "explicit_and_said", "made_explicit"]

Said = Mapping[int, TensorSharding]
"""The layouts that a program says, by the values of its explicit form."""


def made_explicit(graph: Graph) -> Graph:
    """The explicit program of one read from a module, whatever the stage that it is at.

    Raises:
        ShardingError: what cannot be partitioned, as of `materialize`.
    """
    return explicit_and_said(graph)[0]


def explicit_and_said(graph: Graph) -> tuple[Graph, Said]:
    """The same, and the layouts that are said of its values: those of the module read; of what is made anew, any split.

    Raises:
        ShardingError: what cannot be partitioned, as of `materialize`.
    """
    filled = _with_layouts(graph)
    if filled.stage is Stage.EXPLICIT:
        with suppress(ShardingError):  # not in our form: what it asks for is done, or refused, as of any program
            return materialize(filled).graph, dict(_those_said(graph, range(len(graph.shardings))))
        filled = replace(filled, stage=Stage.PROPAGATED)
    made = materialize(filled).graph
    return made, dict(_said_anew(graph, made))


def _those_said(graph: Graph, values: Iterable[int]) -> Iterator[tuple[int, TensorSharding]]:
    for value in values:
        sharding = graph.shardings[value]
        if sharding is not None:
            yield value, sharding


def _said_anew(graph: Graph, made: Graph) -> Iterator[tuple[int, TensorSharding]]:
    """Ops are known by their places; sums that one did not declare to await stay implied."""
    spoken = {(op.name, op.location): [graph.shardings[value] for value in op.results] for op in graph.walk()}
    for value, argument in zip(made.main.block.arguments, graph.main.block.arguments, strict=True):
        yield from [(value, stated) for _, stated in _those_said(graph, (argument,))]
    for op in made.walk():
        stated_results = spoken.get((op.name, op.location), [])
        for number, (value, sharding) in enumerate(_those_said(made, op.results)):
            stated = stated_results[number] if len(stated_results) == len(op.results) else None
            if stated is not None:
                yield value, stated if replace(sharding, partial=stated.partial) == stated else sharding
            elif any(sharding.axes):
                yield value, sharding


def _with_layouts(graph: Graph) -> Graph:
    """A program in which values of which nothing is said are replicated, where anything is said of any."""
    unsaid = [value for value in _values(graph) if graph.types[value].is_tensor and graph.shardings[value] is None]
    mesh = next((sharding.mesh for sharding in graph.shardings if sharding is not None and sharding.mesh.axes), None)
    if not unsaid or mesh is None:
        return graph
    shardings = list(graph.shardings)
    for value in unsaid:
        shardings[value] = replicated(mesh, graph.types[value].rank)
    return replace(graph, shardings=shardings)


def _values(graph: Graph) -> Iterator[int]:
    """The arguments of a program, and what its ops make, but for those in bodies of manual computations."""
    block = graph.main.block
    yield from block.arguments
    for op in block.walk(opaque=frozenset({MANUAL})):
        yield from op.results
