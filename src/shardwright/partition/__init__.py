"""From a propagated program to the one each device runs: split every op, make communication explicit, go local."""

from shardwright.partition.check import check, is_explicit
from shardwright.partition.localize import localize
from shardwright.partition.materialize import Explicit, materialize
from shardwright.partition.notes import Note, boundary_notes

__all__ = ["Explicit", "Note", "boundary_notes", "check", "is_explicit", "localize", "materialize"]
