"""Sharding propagation: from a few annotations to the sharding of every tensor.

`propagate` gives what the C++ Shardy of the pinned jaxlib gives; README.md says how and why. With a `Recording` it
tells afterwards why a value is sharded as it is.
"""

from shardwright.propagation.explain import explain
from shardwright.propagation.explanation import Annotation, Chain, Explanation, Link, Stop, format_explanation
from shardwright.propagation.find import find_value
from shardwright.propagation.method import FACTORS, STRATEGIES
from shardwright.propagation.pipeline import propagate, propagate_only
from shardwright.propagation.reasons import Recording

__all__ = [
    "FACTORS",
    "STRATEGIES",
    "Annotation",
    "Chain",
    "Explanation",
    "Link",
    "Recording",
    "Stop",
    "explain",
    "find_value",
    "format_explanation",
    "propagate",
    "propagate_only",
]
