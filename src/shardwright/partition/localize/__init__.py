"""From an explicit program at global shapes to the program that each device runs; one file per op family.

`localize` does a whole graph. `localize_op` and the collectives write single ops with a `Local` builder, for the body
of a manual computation.
"""

from shardwright.partition.localize import (  # noqa: F401 (imported for what they register)
    constants,
    convolution,
    dot,
    gather,
    moves,
    random,
    reduction,
    scatter,
    shapes,
    update,
)
from shardwright.partition.localize.collectives import (
    local_all_gather,
    local_all_reduce,
    local_all_slice,
    local_all_to_all,
    local_collective_permute,
    local_reduce_scatter,
)
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.program import localize
from shardwright.partition.localize.registry import Localizer, Shardings, localize_op, localizer

__all__ = [
    "Local",
    "Localizer",
    "Shardings",
    "local_all_gather",
    "local_all_reduce",
    "local_all_slice",
    "local_all_to_all",
    "local_collective_permute",
    "local_reduce_scatter",
    "local_type",
    "localize",
    "localize_op",
    "localizer",
]
