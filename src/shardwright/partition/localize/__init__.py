"""From an explicit program at global shapes to the program that each device runs; one file per op family.

`localize` does a whole graph. `localize_op` and `local_step` write single ops with a `Local` builder, for the body of a
manual computation.
"""

from shardwright.partition.localize import (  # noqa: F401 (imported for what they register)
    constants,
    convolution,
    dot,
    dynamic_slice,
    gather,
    joins,
    pads,
    pooling,
    python,
    random,
    reduction,
    reversals,
    rolls,
    scatter,
    shapes,
    slices,
    update,
)
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.moves import local_step
from shardwright.partition.localize.program import localize
from shardwright.partition.localize.registry import Localizer, Shardings, localize_op, localizer

__all__ = [
    "Local",
    "Localizer",
    "Shardings",
    "local_step",
    "local_type",
    "localize",
    "localize_op",
    "localizer",
]
