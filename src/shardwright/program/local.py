"""What is known of any program of one device."""

from __future__ import annotations

from functools import cached_property

from shardwright.analysis.memory import MemoryUse, memory
from shardwright.analysis.traffic import TrafficSummary, collectives, summarize
from shardwright.ir.graph import Graph
from shardwright.program.value import Value

__all__ = ["LocalValue"]


class LocalValue(Value):
    """A value that has the program of one device."""

    local: Graph

    @cached_property
    def traffic(self) -> TrafficSummary:
        """Collectives by kind: how many, how often they run, and the bytes that a device sends."""
        return summarize(collectives(self.local))

    @cached_property
    def memory(self) -> MemoryUse:
        """Bytes of arguments and at the peak, per device."""
        return memory(self.local)
