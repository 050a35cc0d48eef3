"""What patterns of modules' names say of the calls of these, read for a program and written from a plan.

>>> pattern_of("layers.3.mlp#1", ["mlp", "layers.*.mlp", "attn"]), wildcard_of("layers.3.mlp#1")
('layers.*.mlp', 'layers.*.mlp')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shardwright.frontends.module_tensors import module_of
from shardwright.plans.formats.module_names import is_about, most_exact, parts_of, wildcard
from shardwright.plans.saved import PlannedModule

__all__ = ["called_by_pattern", "pattern_of", "said_alike", "wildcard_of"]


def pattern_of(call: str, patterns: Iterable[str]) -> str | None:
    """The pattern that a call of a module goes by, if any is about it."""
    parts = (*parts_of(module_of(call)), "")  # as of a parameter without a name
    about = [pattern for pattern in patterns if is_about(pattern, parts) == (False, len(parts_of(pattern)))]
    return most_exact(about, parts)


def wildcard_of(call: str) -> str:
    """The pattern of a call's module, with `*` for numbers."""
    return wildcard(parts_of(module_of(call)))


def called_by_pattern(modules: Mapping[str, PlannedModule]) -> dict[str, list[str]]:
    """The calls of modules by the patterns of these."""
    found: dict[str, list[str]] = {}
    for call in modules:
        found.setdefault(wildcard_of(call), []).append(call)
    return found


def said_alike(pattern: str, calls: list[str], of: Callable[[str], Any]) -> tuple[dict[str, Any], list[str]]:
    """What is said of calls, by the pattern where it is said alike of all, else by the module of each.

    Returns:
        What is said, and the calls that another one of the same module contradicts.
    """
    first = of(calls[0])
    if all(of(call) == first for call in calls):
        return {pattern: first}, []
    said: dict[str, Any] = {}
    against = [call for call in calls if said.setdefault(module_of(call), of(call)) != of(call)]
    return said, against
