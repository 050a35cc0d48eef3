"""Importing this module registers every rule of ours.

No rule by design: constants and iota (nothing to connect), while, case and optimization_barrier (data-flow edges
connect their values instead), reshards (they are there to change shardings), calls, tokens.
"""

from shardwright.rules import (
    collectives,
    convolution,
    custom_call,
    dot,
    indexing,
    linalg,
    pointwise,
    random,
    reduction,
    shape,
    slicing,
)

__all__ = [
    "collectives",
    "convolution",
    "custom_call",
    "dot",
    "indexing",
    "linalg",
    "pointwise",
    "random",
    "reduction",
    "shape",
    "slicing",
]
