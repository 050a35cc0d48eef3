"""What is known of any program of one device; what analyses it is loaded when asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.program.value import FrozenValue

if TYPE_CHECKING:
    from shardwright.analysis.memory import MemoryUse
    from shardwright.analysis.traffic import TrafficSummary
    from shardwright.assess import Assessment

__all__ = ["LOCAL_NOTATIONS", "LocalValue", "local_text"]

LOCAL_NOTATIONS = ("sdy", "shard", "mesh")
"""What the program of one device may be written in: StableHLO's collectives, or those of the `shard` dialect."""


def local_text(graph: Graph, to: str, explicit: Graph | None = None) -> str:
    """The program of one device as MLIR text, its collectives in the notation called `to`.

    Of the explicit program that it was made from slices by a device's place can be told, which the `shard` dialect has
    an op for.

    Raises:
        ShardingError: no such notation, or one that has no collectives of one device; names that it cannot spell.
    """
    from shardwright.notation import modules

    if to == "sdy":
        return modules.located_text(graph)
    if to not in LOCAL_NOTATIONS:
        raise ShardingError(
            f"the program of one device cannot be written as {to!r}",
            cause="what it is made of are collectives on local shapes",
            remedy=f"one of {', '.join(LOCAL_NOTATIONS)}; other notations take the stage `explicit`",
        )
    from shardwright.ir.context import load_module, module_text
    from shardwright.notation.module_notations import module_notation
    from shardwright.partition import localize
    from shardwright.partition.processes import raised

    graph = graph if explicit is None else localize(explicit, grid=True)
    notation = module_notation(to)
    module = load_module(modules.located_text(raised(graph)))
    notation.write(module)
    return notation.spell(module_text(module, True))


class LocalValue(FrozenValue):
    """A value that has the program of one device."""

    local: Graph

    @cached_property
    def traffic(self) -> TrafficSummary:
        """Collectives by kind: how many, how often they run, and the bytes that a device sends."""
        from shardwright.analysis.traffic import collectives, summarize

        return summarize(collectives(self.local))

    @cached_property
    def memory(self) -> MemoryUse:
        """Bytes of arguments and at the peak, per device."""
        from shardwright.analysis.memory import memory

        return memory(self.local)

    @cached_property
    def assessment(self) -> Assessment:
        """What it comes to on each device: what is held when, sent from where, and how long it takes by the price."""
        from shardwright.assess import assess

        return assess(self.local)
