"""Whether what is asked of a partitioning is there, and can be."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.errors import ShardingError
from shardwright.extents import bounded_dims
from shardwright.ir.graph import Graph
from shardwright.stage import ARGUMENTS, EFFORTS, OPTIMIZATIONS

__all__ = ["check_asked", "check_whole"]


def check_asked(arguments: str, effort: str, optimize: str) -> None:
    """Refuse names of options that there are not."""
    _check_known("no way to take arguments", arguments, ARGUMENTS)
    _check_known("no such effort", effort, EFFORTS)
    _check_known("no such optimization", optimize, OPTIMIZATIONS)


def check_whole(annotated: Graph) -> None:
    """Refuse arguments with offsets or halos where each device is to take them in full."""
    main = annotated.main
    for number, (name, value) in enumerate(zip(main.argument_names, main.block.arguments, strict=True)):
        sharding = annotated.shardings[value]
        if sharding is not None and bounded_dims(sharding):
            raise ShardingError(
                f"argument {name!r} has offsets or halos, and is to be taken whole",
                op="func.func",
                location=annotated.argument_location(number),
                cause=f"sharding {sharding!r}; of shards that are not of one size nobody slices one out",
                remedy="let devices take their shards of arguments, or leave offsets and halos out",
            )


def _check_known(what: str, given: str, known: Mapping[str, str]) -> None:
    if given not in known:
        raise ShardingError(f"{what}: {given!r}", remedy=f"one of {', '.join(known)}")
