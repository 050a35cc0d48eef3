"""Importing this registers every notation of single shardings."""

from shardwright.notation import sdy  # noqa: F401
