"""What is known of any program of one device; what analyses it is loaded when asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from shardwright.ir.graph import Graph
from shardwright.program.value import FrozenValue

if TYPE_CHECKING:
    from shardwright.analysis.memory import MemoryUse
    from shardwright.analysis.traffic import TrafficSummary

__all__ = ["LocalValue"]


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
