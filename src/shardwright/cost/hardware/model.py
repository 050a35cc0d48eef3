"""What a hardware is to those who decide: what a device sends, starts, computes and holds.

>>> box = Hardware("a box", bytes_per_second=100.0, start_seconds=3.0, multiply_adds_per_second=10.0)
>>> box.seconds(bytes_sent=200, starts=1, multiply_adds=20)
7.0
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from shardwright.memo import Hashed

__all__ = ["LOST_IN_PARTS", "Hardware", "Links"]

LOST_IN_PARTS = 0.1
"""Which part of their time products are taken to lose that are computed part by part, where that is not known."""


class Links(NamedTuple):
    """Over what devices talk, where what they send takes the longer or the shorter the farther apart they are.

    Attributes:
        devices_near: How many devices stand in a node, where those of others are farther away; `None` where none are.
        dimensions: How many dimensions the torus has that joins them; `None` where a switch does.
        ring: Of what number the lengths of all dimensions are multiples where these close into rings; `None` where they
            never do.
    """

    devices_near: int | None = None
    dimensions: int | None = None
    ring: int | None = None


_ALL_ALIKE = Links()


@dataclass(frozen=True, eq=False)
class Hardware(Hashed):
    """What one device can do. Frozen, compared by value.

    Attributes:
        name: What messages call it.
        bytes_per_second: What a device sends while it takes part in a collective.
        start_seconds: What starting a collective takes before anything is sent.
        multiply_adds_per_second: Iterations of the loops of an op, each a multiplication and an addition.
        memory_bytes: What a device holds, where that is known: programs that fit come before others.
        memory_bytes_per_second: What a device reads from its memory and writes to it, where that is known.
        peaks: Operations per second by type of element, of the types whose peak is known beside bf16. By these two,
            `cost.roofline` tells what a program takes that is there, and products are priced.
        node_devices: How many devices, one behind the other, links of their own join, where a network joins the rest:
            what goes over the one goes beside what goes over the other (`cost.overlap`). All devices where not known.
        network_bytes_per_second: What a device sends to those of other nodes, where that is known; else as much as to
            those of its own.
        torus_dimensions: How many dimensions the torus has that links make, where they do: `cost.torus` tells over how
            many of them devices send at once, each as fast. A switch where not known.
        torus_ring: Where the lengths of all its dimensions are multiples of this, they are rings.
        copied_bytes_per_second: What a device lays out anew for collectives and products, by how much of that it has
            to: see `cost.copies`. It takes no time where that is not known.
        lost_in_parts: Which part of their time products lose that are computed part by part, since parts fill a device
            less.
    """

    name: str
    bytes_per_second: float
    start_seconds: float
    multiply_adds_per_second: float
    memory_bytes: float | None = None
    memory_bytes_per_second: float | None = None
    peaks: tuple[tuple[str, float], ...] = ()
    node_devices: int | None = None
    copied_bytes_per_second: float = math.inf
    lost_in_parts: float = LOST_IN_PARTS
    network_bytes_per_second: float | None = None
    torus_dimensions: int | None = None
    torus_ring: int | None = None

    @property
    def links(self) -> Links | None:
        """Over what devices talk; `None` where all are as near to one another."""
        links = Links(self.devices_near, self.torus_dimensions, self.torus_ring)
        return None if links == _ALL_ALIKE else links

    def with_a_link(self) -> Hardware:
        """The same where a device sends over one link at a time: what takes less time sends less then, and the other
        way round. On a torus that may not be so.
        """
        return self if self.torus_dimensions is None else replace(self, torus_dimensions=None, torus_ring=None)

    @property
    def devices_near(self) -> int | None:
        """How many devices stand in a node, where those of others are farther away; `None` where none are."""
        return None if self.network_bytes_per_second is None else self.node_devices

    def seconds(
        self,
        bytes_sent: float = 0.0,
        starts: int = 0,
        multiply_adds: float = 0.0,
        bytes_copied: float = 0.0,
        bytes_moved: float = 0.0,
        adds_waited: float = 0.0,
        bytes_between_nodes: float = 0.0,
        bytes_beside: float = 0.0,
    ) -> float:
        """The time, in seconds, of sending so many bytes, of so many starts and multiply-adds, of laying out anew so
        many bytes, of moving so many through memory, of waiting as long as so many multiply-adds take, of sending
        so many of the bytes to other nodes, and so many while others go over the busiest link.
        """
        communication = (bytes_sent - bytes_beside) / self.bytes_per_second + starts * self.start_seconds
        if bytes_between_nodes and self.network_bytes_per_second is not None:
            communication += bytes_between_nodes * (1 / self.network_bytes_per_second - 1 / self.bytes_per_second)
        speed = self.memory_bytes_per_second
        traffic = bytes_copied / self.copied_bytes_per_second + (bytes_moved / speed if speed is not None else 0.0)
        return communication + traffic + (multiply_adds + adds_waited) / self.multiply_adds_per_second
