"""How many bytes each device sends in a collective.

Ring formulas over a group of `n` devices. `V` is the full (gathered) buffer, `B` the buffer of one device, both in
bytes. They are also the least that any algorithm can send, except for `all_to_all` on a ring without a crossbar:

    all_gather, reduce_scatter   V·(n−1)/n
    all_reduce                   2·V·(n−1)/n
    all_to_all                   B·(n−1)/n
    collective_permute           B
    all_slice                    0

Source: the volumes of Alpa's cost model and the bus-bandwidth factors of nccl-tests.

    >>> all_gather_bytes(800, 8), all_reduce_bytes(800, 8)
    (700.0, 1400.0)
"""

from __future__ import annotations

__all__ = [
    "LAUNCH_BYTES",
    "all_gather_bytes",
    "all_reduce_bytes",
    "all_slice_bytes",
    "all_to_all_bytes",
    "collective_permute_bytes",
    "reduce_scatter_bytes",
    "weighed",
]

LAUNCH_BYTES = 2.0**-10
"""What starting one collective counts, in bytes. It breaks ties: of two plans that send the same, the one with fewer
collectives is the cheaper. It is no latency in seconds, which only a description of the hardware can give."""


def all_gather_bytes(gathered: float, devices: int) -> float:
    """Bytes each of `devices` sends so that all hold the `gathered` bytes of which each held a part."""
    return gathered * (devices - 1) / devices


def reduce_scatter_bytes(local: float, devices: int) -> float:
    """Bytes each of `devices` sends so that each holds its part of the sum of their buffers of `local` bytes."""
    return local * (devices - 1) / devices


def all_reduce_bytes(local: float, devices: int) -> float:
    """Bytes each of `devices` sends so that all hold the sum of their buffers of `local` bytes."""
    return 2 * local * (devices - 1) / devices


def all_to_all_bytes(local: float, devices: int) -> float:
    """Bytes each of `devices` sends so that each holds one part of every buffer of `local` bytes."""
    return local * (devices - 1) / devices


def collective_permute_bytes(local: float) -> float:
    """Bytes a device sends when it hands its whole buffer of `local` bytes to another."""
    return local


def all_slice_bytes() -> float:
    """Nothing is sent: each device keeps a part of what it holds."""
    return 0.0


def weighed(sent: float, collectives: int) -> float:
    """One number, in bytes, that orders plans by bytes `sent` and then by their number of `collectives`."""
    return sent + collectives * LAUNCH_BYTES
