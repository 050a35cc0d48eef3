"""The hardware that prices are made for.

    >>> BYTES.seconds(bytes_sent=1024)
    1024.0

A session says which: `Session(hardware=BYTES)`. Whoever decides asks `current_hardware` once and hands it on as an
argument, so that it is part of what an answer is remembered by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.memo import Hashed, current_session

__all__ = ["BYTES", "TPU_V5P", "Hardware", "current_hardware"]


@dataclass(frozen=True, eq=False)
class Hardware(Hashed):
    """What one device can do. Frozen, compared by value.

    Attributes:
        name: What messages call it.
        bytes_per_second: What a device sends while it takes part in a collective.
        start_seconds: What starting a collective takes before anything is sent.
        multiply_adds_per_second: Iterations of the loops of an op, each a multiplication and an addition.
    """

    name: str
    bytes_per_second: float
    start_seconds: float
    multiply_adds_per_second: float

    def seconds(self, bytes_sent: float = 0.0, starts: int = 0, multiply_adds: float = 0.0) -> float:
        """The time, in seconds, of sending so many bytes, of so many starts, and of so many multiply-adds."""
        communication = bytes_sent / self.bytes_per_second + starts * self.start_seconds
        return communication + multiply_adds / self.multiply_adds_per_second


BYTES = Hardware("bytes", bytes_per_second=1.0, start_seconds=2.0**-10, multiply_adds_per_second=math.inf)
"""No machine: orders by bytes sent, and by the number of collectives where these are the same. A second is a byte."""

TPU_V5P = Hardware("TPU v5p", bytes_per_second=9e10, start_seconds=1e-6, multiply_adds_per_second=4.59e14 / 2)
"""A TPU v5p: one way of one link of its torus, about a microsecond a hop, and bfloat16 operations, two to each
multiply-add. Source: Austin et al., "How to Scale Your Model", the tables of TPU specifications."""

_DEFAULT = TPU_V5P


def current_hardware() -> Hardware:
    """The hardware of the current session, or the default one where it says none.

    Raises:
        ShardingError: what the session was given is not hardware.
    """
    hardware = current_session().hardware
    if hardware is None:
        return _DEFAULT
    if not isinstance(hardware, Hardware):
        raise ShardingError(f"{hardware!r} is no hardware", remedy="give a session one of shardwright.cost.hardware")
    return hardware
