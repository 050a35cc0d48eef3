"""The command `shardwright`: options, printing, exit status, and nothing else."""

from __future__ import annotations

from typing import Any

from shardwright.lazy import loaded
from shardwright.process import prepare, run

__all__ = ["cli", "main"]


def main() -> None:
    """The entry point of the `shardwright` command; signals end it also while the rest is loaded."""
    prepare()
    run(lambda: loaded("shardwright.cli.command:main")())


def __getattr__(name: str) -> Any:
    """`cli` is the command without the process around it."""
    if name != "cli":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return loaded("shardwright.cli.command:cli")
