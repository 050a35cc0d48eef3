"""Importing this registers every notation of single shardings and of modules, in the order in which texts are tried."""

from shardwright.notation import sdy, hlo, shard, rfc, jax, dtensor  # noqa: F401, I001 (the order matters)
import shardwright.notation.sdy.modules
import shardwright.notation.rfc.modules
import shardwright.notation.shard.modules
import shardwright.notation.hlo.modules  # noqa: F401  # imported for what they register
