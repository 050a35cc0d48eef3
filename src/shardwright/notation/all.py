"""Importing this registers every notation of single shardings and of modules, in the order in which texts are tried."""

from shardwright.notation import sdy, hlo, shard, rfc, jax, dtensor  # noqa: F401, I001 (the order matters)
from shardwright.notation import sdy_modules, rfc_modules, shard_modules, hlo_modules  # noqa: F401
