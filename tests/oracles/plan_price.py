"""What a run of a per-device program takes on a hardware: one function for whoever partitioned it.

Nothing of it at the same time: its collectives, each a start and the bytes that a device sends on a ring, and its kernels
by the roofline. Collectives are counted after SPMD partitioning and at the end of XLA's pipeline, which merges some, drops
some that are there twice and counts the turns of more loops, and takes reduce-scatters of CPUs apart: what counts is where
fewer loops are of unknown length, else the lesser of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.cost.hardware import Hardware
from shardwright.cost.roofline import roofline_seconds
from tests.oracles.hlo import HloCollective, collectives
from tests.oracles.hlo_work import Kernel, kernels

__all__ = ["Plan", "plan_of", "seconds_on"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What each device does in a run of a program.

    Attributes:
        sent: Bytes that it sends.
        starts: Collectives that it starts, one after the other.
        kernels: What it computes.
    """

    sent: float
    starts: int
    kernels: tuple[Kernel, ...]

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
    return Plan(min(map(_sent, best)), min(map(_starts, best)), tuple(merged))


def seconds_on(hardware: Hardware, plan: Plan) -> float:
    """What a run of a program takes."""
    computing = sum(
        kernel.times
        * roofline_seconds(hardware, operations=kernel.operations, bytes_moved=kernel.moved, dtype=kernel.dtype)
        for kernel in plan.kernels
    )
    return hardware.seconds(plan.sent, plan.starts) + computing


def _sent(uses: Sequence[HloCollective]) -> float:
    return sum(use.total for use in uses)


def _starts(uses: Sequence[HloCollective]) -> int:
    return sum(use.executed for use in uses if use.sent > 0)
