"""From a propagated program to the one each device runs: split every op, make communication explicit, go local."""

from shardwright.partition.arguments import with_whole_arguments
from shardwright.partition.check import check
from shardwright.partition.enclose import enclose
from shardwright.partition.localize import localize
from shardwright.partition.materialize import Explicit, materialize
from shardwright.partition.named_steps import with_named_steps
from shardwright.partition.note import Note, check_strict
from shardwright.partition.notes import boundary_notes
from shardwright.partition.padding import is_kept_uneven, with_stated_boundary

__all__ = [
    "Explicit",
    "Note",
    "boundary_notes",
    "check",
    "check_strict",
    "enclose",
    "is_kept_uneven",
    "localize",
    "materialize",
    "with_named_steps",
    "with_stated_boundary",
    "with_whole_arguments",
]
