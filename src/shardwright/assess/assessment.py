"""All that is known of what a program comes to, as one value."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from shardwright.analysis.memory import Buffer, MemoryUse, held_at_peak, held_over, memory
from shardwright.analysis.traffic import CollectiveUse, KindTraffic, collectives
from shardwright.assess.times import Times, times
from shardwright.assess.work import OpWork, works
from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph

__all__ = ["Assessment", "assess"]

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a program comes to on each device.

    Attributes:
        memory: Bytes of arguments, results and at the peak.
        held: What is held at the peak, the largest first.
        over: Bytes held while the ops of the function run, in order.
        collectives: What is sent, in order.
        work: What ops compute, in order; `None` of a program that was read as one of a device, which does not say what
            would be needed if there were no others.
        unknown: How many ops compute something of which that is not known.
        times: Seconds by the price.
        hardware: What that is the price on.
    """

    memory: MemoryUse
    held: tuple[Buffer, ...]
    over: tuple[int, ...]
    collectives: tuple[CollectiveUse, ...]
    work: tuple[OpWork, ...] | None
    unknown: int
    times: Times
    hardware: str

    @property
    def needed(self) -> float:
        """Multiply-adds of the program on one device."""
        return sum(one.runs * one.needed for one in self.work or ())

    @property
    def done(self) -> float:
        """Multiply-adds of all devices together."""
        return sum(one.runs * one.done for one in self.work or ())

    @property
    def redundant(self) -> list[OpWork]:
        """The ops that are computed more than once, those first that waste most."""
        return sorted([one for one in self.work or () if one.wasted > 0], key=lambda one: -one.wasted)

    @property
    def by_axes(self) -> dict[tuple[str, ...], KindTraffic]:
        """Traffic by the mesh axes along which devices talk, the most first."""
        return self._by(lambda use: use.along)

    @property
    def by_place(self) -> dict[str, KindTraffic]:
        """Traffic by where it comes from, the most first."""
        return self._by(lambda use: str(use.location))

    def _by(self, key: Callable[[CollectiveUse], K]) -> dict[K, KindTraffic]:
        found: dict[K, KindTraffic] = {}
        for use in self.collectives:
            found[key(use)] = found.get(key(use), KindTraffic()) + use.traffic
        return dict(sorted(found.items(), key=lambda pair: -pair[1].executed_bytes))


def assess(local: Graph, explicit: Graph | None = None) -> Assessment:
    """What a program comes to on the hardware of the session.

    Arguments:
        local: The program of one device.
        explicit: The explicit program that it was made from, if it was.
    """
    work, unknown = (None, 0) if explicit is None else works(explicit)
    return Assessment(
        memory(local),
        held_at_peak(local),
        tuple(held_over(local)),
        collectives(local),
        None if work is None else tuple(work),
        unknown,
        times(local if explicit is None else explicit),
        current_hardware().name,
    )
