"""Upstream MLIR's `shard` dialect and the `mesh` dialects before it: single shardings, and modules."""

from shardwright.notation.shard.sharding import ceil_cuts, parse, print_sharding, trailing_cuts

__all__ = ["ceil_cuts", "parse", "print_sharding", "trailing_cuts"]
