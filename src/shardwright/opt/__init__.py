"""The command `shardwright-opt`: passes over modules, with the flags and answers of `mlir-opt` and `sdy_opt`."""

from shardwright.opt.command import main

__all__ = ["main"]
