"""Upstream MLIR's `shard` dialect as tables of op forms, with what its ops must obey."""
