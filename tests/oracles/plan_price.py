"""What a run of a per-device program takes on a hardware: one function for whoever partitioned it.

Nothing of it at the same time: its collectives, each a start and the bytes that a device sends on a ring, and its kernels
by the roofline. Collectives are counted after SPMD partitioning and at the end of XLA's pipeline, which merges some, moves
some out of loops and drops some that are there twice, but on CPUs makes all_reduces of reduce_scatters. What takes less on
a hardware counts there; of both, if one of them knows how often more loops run, that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardwright.cost.hardware import Hardware, Links
from shardwright.cost.roofline import roofline_seconds
from shardwright.cost.torus import torus_on
from tests.oracles.hlo import HloCollective, collectives, part_between_nodes, part_on_busiest_link
from tests.oracles.hlo_work import Kernel, kernels

__all__ = ["Plan", "Sends", "plan_of", "seconds_on", "sends_on"]


class Sends(NamedTuple):
    """What a device sends, in bytes, the collectives that it starts for it, one after the other, what of the bytes
    goes to other nodes, and what over other links than the busiest.
    """

    sent: float
    starts: int
    far: float = 0.0
    beside: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What each device does in a run of a program.

    Attributes:
        sends: Its communication, as it may be counted.
        kernels: What it computes.
        uses: The collectives, as they may be counted.
        devices: How many devices there are.
    """

    sends: tuple[Sends, ...]
    kernels: tuple[Kernel, ...]
    uses: tuple[Sequence[HloCollective], ...] = ()
    devices: int = 1

    @property
    def sent(self) -> float:
        """The least bytes that it sends."""
        return min(one.sent for one in self.sends)

    @property
    def operations(self) -> float:
        """Those of products and convolutions."""
        return sum(kernel.operations * kernel.times for kernel in self.kernels)


def plan_of(entered: str, final: str, devices: int) -> Plan:
    """What the devices of a program do.

    Arguments:
        entered: The program after SPMD partitioning, in HLO.
        final: What XLA has made of it at the end of its pipeline.
        devices: How many there are.
    """
    counted = [collectives(text, devices) for text in (entered, final)]
    unknown = [sum(not use.trip_count_known for use in uses) for uses in counted]
    best = [uses for uses, count in zip(counted, unknown, strict=True) if count == min(unknown)]
    alike: Counter[Kernel] = Counter()
    for kernel in kernels(entered):
        alike[Kernel(kernel.opcode, kernel.operations, kernel.dtype, kernel.moved)] += kernel.times
    merged = (Kernel(one.opcode, one.operations, one.dtype, one.moved, times) for one, times in alike.items())
    return Plan(tuple(map(_sends, best)), tuple(merged), tuple(best), devices)


def sends_on(hardware: Hardware, plan: Plan) -> Sends:
    """The communication that takes the least time on a hardware."""
    links = hardware.links
    sends = plan.sends if links is None else [_sends(uses, links, plan.devices) for uses in plan.uses] or plan.sends
    return min(sends, key=lambda one: _sending(hardware, one))


def _sending(hardware: Hardware, sends: Sends) -> float:
    return hardware.seconds(sends.sent, sends.starts, bytes_between_nodes=sends.far, bytes_beside=sends.beside)


def seconds_on(hardware: Hardware, plan: Plan) -> float:
    """What a run of a program takes."""
    computing = sum(
        kernel.times
        * roofline_seconds(hardware, operations=kernel.operations, bytes_moved=kernel.moved, dtype=kernel.dtype)
        for kernel in plan.kernels
    )
    return _sending(hardware, sends_on(hardware, plan)) + computing


def _sends(uses: Sequence[HloCollective], links: Links | None = None, devices: int = 1) -> Sends:
    near, torus = None if links is None else links.devices_near, torus_on(devices, links)
    far = beside = 0.0
    for use in uses:
        part = 0.0 if near is None else part_between_nodes(use.kind, use.rows, near)
        far += use.total * part
        beside += use.total * (1 - part) * (1 - part_on_busiest_link(use.kind, use.rows, torus))
    return Sends(sum(use.total for use in uses), sum(use.executed for use in uses if use.sent > 0), far, beside)
