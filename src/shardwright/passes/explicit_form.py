"""Programs that others made explicit, as Shardy's own passes do, taken by our passes.

A program that satisfies `partition.check` is explicit and stays. In Shardy's form sums are implied: the result of a
product that is split along what it contracts is not declared unreduced, and yet an `sdy.all_reduce` follows it. Shards
need not divide, and an argument or value of which nothing is said is replicated. Such a program means what it says
globally, where no collective changes a value: each asks for the layout of its result, and our stages choose the
communication anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.ops import MANUAL
from shardwright.partition import materialize
from shardwright.sharding import replicated
from shardwright.stage import Stage

__all__ = ["made_explicit"]


def made_explicit(graph: Graph) -> Graph:
    """The explicit program of one read from a module, whatever the stage that it is at.

    Raises:
        ShardingError: what cannot be partitioned, as of `materialize`.
    """
    graph = _with_layouts(graph)
    if graph.stage is not Stage.EXPLICIT:
        return materialize(graph).graph
    try:
        return materialize(graph).graph
    except ShardingError:  # not in our form: what it asks for is done, or refused, as of any program
        return materialize(replace(graph, stage=Stage.PROPAGATED)).graph


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
