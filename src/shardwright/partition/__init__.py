"""From a propagated program to the one each device runs: split every op, make communication explicit, go local."""

from shardwright.partition.check import check
from shardwright.partition.enclose import enclose
from shardwright.partition.localize import localize
from shardwright.partition.materialize import Explicit, materialize
from shardwright.partition.note import Note
from shardwright.partition.notes import boundary_notes

__all__ = ["Explicit", "Note", "boundary_notes", "check", "enclose", "localize", "materialize"]
