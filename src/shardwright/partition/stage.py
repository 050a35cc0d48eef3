"""How a module of the local stage is recognized when it is read again."""

from __future__ import annotations

from shardwright.ir.attributes import decode
from shardwright.ir.graph import Graph

__all__ = ["LOCAL_STAGE", "is_local_stage"]

LOCAL_STAGE = {"shardwright.stage": '"local"'}
"""What `localize` writes on a module. It is a comfort: what a program computes does not depend on it."""

_DEVICE_OPS = frozenset(
    {
        "stablehlo.all_gather",
        "stablehlo.all_reduce",
        "stablehlo.all_to_all",
        "stablehlo.collective_broadcast",
        "stablehlo.collective_permute",
        "stablehlo.collective_reduce",
        "stablehlo.partition_id",
        "stablehlo.reduce_scatter",
    }
)
"""Ops that have no meaning on one device."""


def is_local_stage(graph: Graph) -> bool:
    """Whether a graph is the program of one partition, as `localize` writes it.

    It runs on several partitions, has nothing to be sharded, and says that it is local, or has an op that only such
    programs have. Those inside an `sdy.manual_computation` belong to a program for one device.
    """
    attributes = graph.attributes
    if any(graph.shardings) or decode(attributes.get("mhlo.num_partitions", "1 : i32")) == 1:
        return False
    if decode(attributes.get("mhlo.num_replicas", "1 : i32")) != 1:
        return False
    names = {op.name for op in graph.walk()}
    if any(name.startswith("sdy.") for name in names):
        return False
    return LOCAL_STAGE.items() <= attributes.items() or not names.isdisjoint(_DEVICE_OPS)
