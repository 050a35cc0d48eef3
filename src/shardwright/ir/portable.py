"""Portable artifacts of StableHLO: modules that later versions read, and earlier ones as far back as one asks for."""

from __future__ import annotations

from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, load_module, stablehlo

__all__ = ["OLDEST_READER", "current_version", "is_readable", "portable_artifact"]

OLDEST_READER = "1.17.0"
"""The StableHLO of the oldest jaxlib that shardwright runs with; its words for replica groups are from then."""


def current_version() -> str:
    """The StableHLO of the jaxlib that is installed."""
    version: str = stablehlo.get_current_version()
    return version


def portable_artifact(text: str, name: str) -> tuple[bytes, str]:
    """A module, given as text, as a portable artifact, and the version of StableHLO that it takes to read it.

    That is the oldest that shardwright runs with, unless the module has something newer.

    Raises:
        ShardingError: an op that StableHLO does not have; `name` says whose.
    """
    module = load_module(text, name)
    current = current_version()
    failed = ""
    quiet: Any = context().attach_diagnostic_handler(lambda _: True)  # else a failed attempt prints to stderr
    try:
        for version in dict.fromkeys((min(OLDEST_READER, current, key=_order), current)):
            try:
                return stablehlo.serialize_portable_artifact(module, version, True), version
            except (ValueError, ir.MLIRError) as error:
                failed = str(error)
    finally:
        quiet.detach()
    raise ShardingError(
        "the program cannot be written as a portable artifact of StableHLO",
        location=name,
        cause=failed.split("\n", 1)[0],
        remedy="leave out ops of other dialects, or write the stages as text: spmd.write(stage, path)",
    )


def is_readable(version: str) -> bool:
    """Whether the installed jaxlib reads artifacts of a version."""
    return _order(version) <= _order(current_version())


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
