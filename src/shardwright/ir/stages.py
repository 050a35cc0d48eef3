"""Which stage a module is at that was read: the one place that tells it by looking at the ops.

Graphs that are made from others say their stage themselves (see `Graph.stage`).
"""

from __future__ import annotations

from shardwright.ir.attributes import decode
from shardwright.ir.graph import Graph
from shardwright.ir.ops import COLLECTIVES, DEVICE_OPS, GRID_OPS, MANUAL
from shardwright.stage import Stage

__all__ = ["CLUSTER", "LOCAL_MARK", "stage_of"]

LOCAL_MARK = {"shardwright.stage": f'"{Stage.LOCAL.value}"'}
"""What is written on a module of the local stage. It is a comfort: what a program computes does not depend on it."""

CLUSTER = "mesh_cluster"
"""The attribute by which a function of the mesh RFC names its cluster; a program for all devices is read without it."""

_BODIES = frozenset({MANUAL})
"""Ops that hold a program for one device."""

_WHOLE_TENSORS = frozenset({"shard.get_sharding", "shard.shard"})


def stage_of(graph: Graph) -> Stage:
    """The stage of a graph that was just read.

    A propagated program is told from an annotated one by nobody: to propagate it again changes nothing.
    """
    if _is_local(graph):
        return Stage.LOCAL
    return Stage.EXPLICIT if _is_explicit(graph) else Stage.ANNOTATED


def _is_local(graph: Graph) -> bool:
    """Whether a graph is a program for one of several devices, in StableHLO or in the `shard` dialect.

    It has nothing to be sharded, and asks or communicates, or says that it is local. Collectives inside an
    `sdy.manual_computation` belong to a program for one device.
    """
    if any(graph.shardings):
        return False
    names = graph.op_names()
    if any(name.startswith("sdy.") for name in names):
        return False
    if _is_partitioned(graph) and (LOCAL_MARK.items() <= graph.attributes.items() or names & DEVICE_OPS):
        return True
    if CLUSTER in graph.main.attributes and names & DEVICE_OPS:  # of the mesh RFC, which keeps the two kinds apart so
        return True
    return bool(names & GRID_OPS) and not names & _WHOLE_TENSORS


def _is_partitioned(graph: Graph) -> bool:
    counts = [decode(graph.attributes.get(f"mhlo.num_{what}", "1 : i32")) for what in ("partitions", "replicas")]
    return bool(counts[0] != 1 and counts[1] == 1)


def _is_explicit(graph: Graph) -> bool:
    """Whether a program looks like one that `partition` wrote: collectives between ops, a layout for every tensor.

    Collectives in a program whose tensors are not all sharded yet, or which has reshards, are requests for layouts
    instead.
    """
    names = graph.op_names()
    if "sdy.reshard" in names or names.isdisjoint(COLLECTIVES):
        return False
    for op in graph.main.block.walk(opaque=_BODIES):
        if op.name in _BODIES:
            continue
        values = (*op.results, *(value for block in op.regions for value in block.arguments))
        if any(graph.types[value].is_tensor and graph.shardings[value] is None for value in values):
            return False
    return True
