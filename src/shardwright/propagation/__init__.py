"""Sharding propagation: from a few annotations to the sharding of every tensor.

`propagate` gives what the C++ Shardy of the pinned jaxlib gives; README.md says how and why. With a `Recording` it
tells afterwards why a value is sharded as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardwright.lazy import names_at

if TYPE_CHECKING:
    from shardwright.propagation.explain.chain import Annotation, Chain, Link, Stop
    from shardwright.propagation.explain.explain import explain_values
    from shardwright.propagation.explain.explanation import Explanation, Explanations, format_explanation
    from shardwright.propagation.explain.find import find_value
    from shardwright.propagation.explain.history import History
    from shardwright.propagation.method import FACTORS, STRATEGIES
    from shardwright.propagation.pipeline import propagate, propagate_only
    from shardwright.propagation.recording import Recording
    from shardwright.propagation.rfc.derivation import Dropped
    from shardwright.propagation.strategies import (
        DEFAULT_STRATEGY,
        PRICED_STRATEGIES,
        STRATEGY_WORDS,
        check_strategy,
    )

__all__ = [
    "Dropped",
    "explain_values",
    "Annotation",
    "Chain",
    "Explanation",
    "Explanations",
    "Link",
    "Stop",
    "format_explanation",
    "find_value",
    "History",
    "FACTORS",
    "STRATEGIES",
    "propagate",
    "propagate_only",
    "Recording",
    "DEFAULT_STRATEGY",
    "PRICED_STRATEGIES",
    "STRATEGY_WORDS",
    "check_strategy",
]

_HOMES = {
    "Dropped": "shardwright.propagation.rfc.derivation:Dropped",
    "explain_values": "shardwright.propagation.explain.explain:explain_values",
    "Annotation": "shardwright.propagation.explain.chain:Annotation",
    "Chain": "shardwright.propagation.explain.chain:Chain",
    "Explanation": "shardwright.propagation.explain.explanation:Explanation",
    "Explanations": "shardwright.propagation.explain.explanation:Explanations",
    "Link": "shardwright.propagation.explain.chain:Link",
    "Stop": "shardwright.propagation.explain.chain:Stop",
    "format_explanation": "shardwright.propagation.explain.explanation:format_explanation",
    "find_value": "shardwright.propagation.explain.find:find_value",
    "History": "shardwright.propagation.explain.history:History",
    "FACTORS": "shardwright.propagation.method:FACTORS",
    "STRATEGIES": "shardwright.propagation.method:STRATEGIES",
    "propagate": "shardwright.propagation.pipeline:propagate",
    "propagate_only": "shardwright.propagation.pipeline:propagate_only",
    "Recording": "shardwright.propagation.recording:Recording",
    "DEFAULT_STRATEGY": "shardwright.propagation.strategies:DEFAULT_STRATEGY",
    "PRICED_STRATEGIES": "shardwright.propagation.strategies:PRICED_STRATEGIES",
    "STRATEGY_WORDS": "shardwright.propagation.strategies:STRATEGY_WORDS",
    "check_strategy": "shardwright.propagation.strategies:check_strategy",
}
"""Name → where it is defined: loaded when it is asked for."""

if not TYPE_CHECKING:
    __getattr__ = names_at(__name__, _HOMES)
