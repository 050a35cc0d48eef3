"""Whether the machine can hold what a run needs: asked before anything is drawn, so that nothing is filled.

Counted is only what is held for sure: the inputs and results, once as arrays and once on the devices. What lies
between them a compiler may fuse away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.words import bytes_text, counted

__all__ = ["check_drawn", "check_run", "memory_limit"]

_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may take, in both of its forms."""
_DRAWN = 8
"""Bytes of a number as `numpy` draws it, before it takes the type of the argument."""


def memory_limit() -> int:
    """The most bytes that this process may take: what the machine has, or what it is limited to.

    Limits are those of a container, of an address space and of data (`ulimit -v`, `-d`), and of resident memory
    (`ulimit -m`), which Linux itself does not enforce.
    """
    limits = [*_machine(), *_container(), *_process()]
    return min(limits, default=sys.maxsize)


def check_drawn(types: Sequence[TensorType], drawn: Iterable[TensorType]) -> None:
    """Check that arrays of these types can be held, while those of `drawn` are drawn one after the other.

    Raises:
        ShardingError: they cannot.
    """
    held = sum(type.bytes for type in types)
    largest = max((type.elements * _DRAWN for type in drawn), default=0)
    _check(held + largest, "inputs", types)


def check_run(arrays: Sequence[TensorType], local: Graph, devices: int) -> None:
    """Check that a program can be run on virtual devices, beside its inputs and results.

    Arguments:
        arrays: The inputs and results, whole.
        local: The program of each device.
        devices: How many of them there are, in the memory of this machine.

    Raises:
        ShardingError: it cannot.
    """
    held = sum(type.bytes for type in arrays)
    block = local.main.block
    part = sum(local.types[value].bytes for value in (*block.arguments, *block.terminator.operands))
    _check(held + max(held, devices * part), f"a run on {counted(devices, 'virtual device')}", arrays)


def _check(needed: int, what: str, types: Sequence[TensorType]) -> None:
    limit = memory_limit()
    if needed <= limit:
        return
    largest = max(types, key=lambda type: type.bytes)
    raise ShardingError(
        f"{what} would take {bytes_text(needed)} of memory, of which there are {bytes_text(limit)} here",
        cause=f"inputs and results are held as arrays and on the devices; the largest is {largest}, "
        f"{bytes_text(largest.bytes)}",
        remedy="make the sizes smaller for the trial (a sharding is right for all sizes that divide alike), or run "
        "it on a machine with more memory",
    )


def _machine() -> list[int]:
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, ValueError, OSError):  # no such question on this system
        return []


def _container() -> list[int]:
    limits = []
    for place in _GROUPS:
        try:
            text = Path(place).read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # else "max"
            limits.append(int(text))
    return limits


def _process() -> list[int]:
    try:
        import resource
    except ImportError:  # Windows has none
        return []
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_RSS)
    limits = [resource.getrlimit(kind)[0] for kind in kinds]
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]
