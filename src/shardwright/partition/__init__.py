"""From a propagated program to the one each device runs: split every op, make communication explicit, go local."""

from shardwright.partition.check import check, is_explicit
from shardwright.partition.localize import localize
from shardwright.partition.materialize import Explicit, Note, materialize

__all__ = ["Explicit", "Note", "check", "is_explicit", "localize", "materialize"]
