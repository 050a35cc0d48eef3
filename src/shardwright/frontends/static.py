"""Which arguments of a function are static, as `jax.jit` takes `static_argnums` and `static_argnames`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["static_arguments"]


def static_arguments(fn: Callable[..., Any], options: Mapping[str, Any], count: int) -> tuple[set[int], set[str]]:
    """The positions and names of the arguments that are static in a call with `count` positional ones.

    Where only positions are given, or only names, the others are those of the same parameters, as for `jax.jit`.

    Arguments:
        fn: The function.
        options: Those of `jax.jit`.
        count: How many arguments are given by position.
    """
    numbers, names = (options.get(key) for key in ("static_argnums", "static_argnames"))
    numbers, names = () if numbers is None else numbers, () if names is None else names
    positions = {numbers} if isinstance(numbers, int) else {*numbers}
    called = {names} if isinstance(names, str) else {*names}
    if bool(positions) != bool(called):
        known = _parameters(fn)
        same = {number for number, name in known if number in positions or name in called}
        positions |= same
        called |= {name for number, name in known if number in same}
    inside = {number + count if number < 0 else number for number in positions}
    return {number for number in inside if 0 <= number < count}, called


def _parameters(fn: Callable[..., Any]) -> list[tuple[int, str]]:
    """The parameters that may be given either way; none of what has no signature."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [(number, one.name) for number, one in enumerate(parameters) if one.kind is either]
