"""Sharding propagation: from a few annotations to the sharding of every tensor.

`propagate` gives what the C++ Shardy of the pinned jaxlib gives; README.md says how and why. With a `Recording` it
tells afterwards why a value is sharded as it is.
"""

from shardwright.propagation.derivation import Dropped
from shardwright.propagation.explain import explain, explain_values
from shardwright.propagation.explanation import (
    Annotation,
    Chain,
    Explanation,
    Explanations,
    Link,
    Stop,
    format_explanation,
)
from shardwright.propagation.find import find_value
from shardwright.propagation.method import FACTORS, STRATEGIES
from shardwright.propagation.pipeline import propagate, propagate_only
from shardwright.propagation.reasons import Recording
from shardwright.propagation.strategies import DEFAULT_STRATEGY, STRATEGY_WORDS, check_strategy

__all__ = [
    "DEFAULT_STRATEGY",
    "FACTORS",
    "STRATEGIES",
    "STRATEGY_WORDS",
    "Annotation",
    "Chain",
    "Dropped",
    "Explanation",
    "Explanations",
    "Link",
    "Recording",
    "Stop",
    "check_strategy",
    "explain",
    "explain_values",
    "find_value",
    "format_explanation",
    "propagate",
    "propagate_only",
]
