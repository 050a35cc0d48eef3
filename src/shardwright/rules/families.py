"""Importing this module registers every rule of ours, and what is known of ops.

No rule by design: constants and iota (nothing to connect), while, case and optimization_barrier (data-flow edges
connect their values instead), reshards (they are there to change shardings), calls, tokens. What else is known of them
their families declare all the same.
"""

from shardwright.rules import (
    collectives,
    control,
    convolution,
    creation,
    custom_call,
    dot,
    indexing,
    layouts,
    linalg,
    pointwise,
    random,
    reduction,
    shape,
    slicing,
    tosa,
)

__all__ = [
    "collectives",
    "control",
    "convolution",
    "creation",
    "custom_call",
    "dot",
    "indexing",
    "layouts",
    "linalg",
    "pointwise",
    "random",
    "reduction",
    "shape",
    "slicing",
    "tosa",
]
