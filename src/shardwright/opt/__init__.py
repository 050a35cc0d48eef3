"""The command `shardwright-opt`: passes over modules, with the flags and answers of `mlir-opt` and `sdy_opt`."""

from __future__ import annotations

from shardwright.lazy import loaded
from shardwright.process import prepare, run

__all__ = ["main"]


def main() -> None:
    """The entry point of the `shardwright-opt` command; signals end it also while the rest is loaded."""
    prepare()
    run(lambda: loaded("shardwright.opt.command:main")())
