"""What passes say of a module that they take nevertheless: warnings, for whoever listens.

    with heard(Warnings(print)):
        run_step(module, step)

Most are said once, of the first op that they are true of, however many passes look at how many others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.ops import INDEXING_MAPS
from shardwright.passes.module_ops import error_at
from shardwright.rules.custom_call import known_targets
from shardwright.rules.facts import names
from shardwright.rules.registry import registered_ops
from shardwright.rules.text import ATTRIBUTE

__all__ = ["Warnings", "heard", "is_heard", "warn", "warn_of_unknown"]

_CUSTOM_CALL = "stablehlo.custom_call"
_WITHOUT_RULE = frozenset(
    {
        "builtin.module",
        "func.call",
        "func.func",
        "func.return",
        *names(
            "stablehlo",
            "after_all case constant create_token get_tuple_element infeed iota optimization_barrier outfeed",
            "partition_id recv return send while",
        ),
    }
)
"""Ops that have no rule because they need none, besides those of `sdy`."""


_SAYING_RULES = frozenset({ATTRIBUTE, INDEXING_MAPS})


@dataclass(slots=True)
class Warnings:
    """Hears warnings.

    Attributes:
        say: Called with what a warning says, and where: `FILE:LINE:COLUMN`.
        said: The kinds that are said once, of those that were.
    """

    say: Callable[[str, str], None]
    said: set[str] = field(default_factory=set)


_listening: ContextVar[Warnings | None] = ContextVar("_listening", default=None)


@contextmanager
def heard(warnings: Warnings) -> Iterator[None]:
    """Let `warnings` hear what passes say meanwhile."""
    token = _listening.set(warnings)
    try:
        yield
    finally:
        _listening.reset(token)


def is_heard(kind: str = "") -> bool:
    """Whether anybody listens who has not heard a warning of this kind, one that is said once."""
    warnings = _listening.get()
    return warnings is not None and kind not in warnings.said


def warn(op: Any, message: str, once: str = "") -> None:
    """Say something of an op; of a kind that is said `once`, the first time only."""
    warnings = _listening.get()
    if warnings is None or once in warnings.said:
        return
    if once:
        warnings.said.add(once)
    warnings.say(message, error_at(op, message).diagnostic.location)


def warn_of_unknown(ops: Iterable[Any]) -> None:
    """Say of the first op, and of the first custom call, that it has no sharding rule and none can be expected."""
    if not (is_heard("op") or is_heard(_CUSTOM_CALL)):
        return
    known = _WITHOUT_RULE.union(registered_ops())
    for op in ops:
        name = op.name
        if name == _CUSTOM_CALL:
            target = str(op.attributes["call_target_name"].value)
            if target not in known_targets() and ATTRIBUTE not in op.attributes:
                warn(op, f"custom call @{target} is unknown to SDY sharding rule registry", _CUSTOM_CALL)
        elif not (name in known or name.startswith("sdy.") or not _SAYING_RULES.isdisjoint(op.attributes)):
            warn(op, f"op '{name}' is unknown to SDY sharding rule registry", "op")
