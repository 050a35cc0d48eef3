"""Propagation from end to end: import, propagate, export."""

from __future__ import annotations

from collections.abc import Iterable

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.propagation.boundary import leave, outermost, without_size_one_axes
from shardwright.propagation.constants import merge_constants, split_constants
from shardwright.propagation.constraints import apply_constraints
from shardwright.propagation.dataflow import add_edges
from shardwright.propagation.effects import remove_dead
from shardwright.propagation.groups import collect_groups
from shardwright.propagation.propagator import Propagator
from shardwright.propagation.step import Strategy
from shardwright.propagation.working import Working
from shardwright.sharding import TensorSharding, replicated

__all__ = ["propagate"]


@uncollected
def propagate(graph: Graph, *, strategy: Strategy = Strategy.AGGRESSIVE) -> Graph:
    """Complete the shardings of a program.

    Arguments:
        graph: The program; it is not changed. Shardings of its values and of `main`'s results are what the user said.
        strategy: How conflicts between the loops of an op are settled.

    Returns:
        A new graph in which every tensor has a closed sharding, constraints are `sdy.reshard` ops, and constants are
        copied where their users want them split differently. A program without any mesh keeps its missing shardings.

    Raises:
        ShardingError: dynamic shapes, tuples, or sharding groups that contradict themselves.
    """
    _check(graph)
    working = Working.of(graph)
    results = list(graph.main.result_shardings)
    if any(size == 1 for mesh in graph.meshes.values() for _, size in mesh.axes):
        working.shardings[:] = _without_size_one_axes(working.shardings)
        results = _without_size_one_axes(results)
    split_constants(working)
    working.build_uses()
    add_edges(working, graph.meshes)
    apply_constraints(working)
    collect_groups(working)
    propagator = Propagator(working, results, strategy)
    propagator.run()
    merge_constants(working)
    leave(working, graph.meshes.values())
    remove_dead(working.block, len(working.types))
    return _graph(graph, working, propagator.result_shardings)


def _check(graph: Graph) -> None:
    strange = {value for value, type in enumerate(graph.types) if type.shape is None}
    if not strange:
        return
    bad = {value for value in strange if graph.types[value].dtype.startswith(("tensor<", "tuple<", "memref<"))}
    if not bad:
        return
    for op in graph.walk():
        for value in op.results:
            if value in bad:
                raise ShardingError(
                    f"type {graph.types[value]} is not a tensor of static shape",
                    op=op.signature.label,
                    location=str(graph.locations[op.location]),
                    cause="propagation needs the size of every dimension, and tensors one by one",
                    remedy="lower the program with concrete shapes, and unpack tuples",
                )
    raise ShardingError(f"type {graph.types[min(bad)]} is not a tensor of static shape", op="func.func")


def _without_size_one_axes(shardings: Iterable[TensorSharding | None]) -> list[TensorSharding | None]:
    return [None if sharding is None else without_size_one_axes(sharding) for sharding in shardings]


def _graph(graph: Graph, working: Working, results: list[TensorSharding | None]) -> Graph:
    made = graph.skeleton()
    made.types = working.types
    made.shardings = working.shardings
    made.main.block = working.block
    mesh = next((mesh for mesh in graph.meshes.values() if mesh.axes), None)
    types = [working.types[value] for value in working.block.terminator.operands]
    closed: list[TensorSharding | None] = []
    for sharding, type in zip(results, types, strict=True):
        outer = outermost(sharding, type)
        if outer is not None:
            closed.append(outer.closed())
        else:
            closed.append(_replicated(mesh, type.rank) if type.is_tensor else None)
    made.main.result_shardings = closed
    return made


def _replicated(mesh: Mesh | None, rank: int) -> TensorSharding | None:
    return None if mesh is None else replicated(mesh, rank)
