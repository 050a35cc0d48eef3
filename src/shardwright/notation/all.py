"""Importing this registers every notation of single shardings, in the order in which texts are tried."""

from shardwright.notation import sdy, hlo, shard, rfc, jax, dtensor  # noqa: F401, I001 (the order matters)
