"""How many bytes each device sends in a collective.

Ring formulas over a group of `n` devices. `V` is the full (gathered) buffer, `B` the buffer of one device, both in
bytes. They are also the least that any algorithm can send, except for `all_to_all` on a ring without a crossbar:

    all_gather, reduce_scatter   V·(n−1)/n
    all_reduce                   2·V·(n−1)/n
    all_to_all                   B·(n−1)/n
    collective_permute           B
    all_slice                    0

XLA has no reductions of integers by `and`, `or` and `xor`, nor of booleans by `xor`. There devices exchange what they
have, and each combines it (`combined_by_hand`): an all_reduce is an all_gather of all contributions, `V·(n−1)`, and a
reduce_scatter an all_to_all, which sends what it would.

Source: the volumes of Alpa's cost model and the bus-bandwidth factors of nccl-tests.

    >>> all_gather_bytes(800, 8), all_reduce_bytes(800, 8)
    (700.0, 1400.0)
"""

from __future__ import annotations

__all__ = [
    "all_gather_bytes",
    "all_reduce_bytes",
    "all_to_all_bytes",
    "collective_permute_bytes",
    "combined_by_hand",
    "reduce_scatter_bytes",
    "sent_bytes",
]


def combined_by_hand(dtype: str) -> frozenset[str]:
    """The kinds of reduction that no collective of XLA does on elements of `dtype`."""
    return frozenset({"xor"} if dtype == "i1" else {"and", "or", "xor"})


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


def sent_bytes(kind: str, operand: float, result: float, devices: int) -> float:
    """Bytes each of `devices` sends in the StableHLO collective `kind`, by the bytes of its operand and its result.

    A `collective_permute` is taken for one that moves something where `devices` is more than one.
    """
    if devices == 1:
        return 0.0
    match kind:
        case "all_gather":
            return all_gather_bytes(result, devices)
        case "all_reduce":
            return all_reduce_bytes(operand, devices)
        case "reduce_scatter":
            return reduce_scatter_bytes(operand, devices)
        case "all_to_all":
            return all_to_all_bytes(operand, devices)
        case "collective_permute" | "collective_broadcast" | "collective_reduce":
            return collective_permute_bytes(operand)
    raise ValueError(f"{kind!r} is no collective of StableHLO")
