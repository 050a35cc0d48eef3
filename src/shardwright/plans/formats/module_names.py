"""Parameters as torch names them, and patterns of such names: `layers.*.mlp.up_proj` is a module in every layer.

`*` stands for a number, as the numbers of layers and experts are written so. A pattern is about a parameter whose name
ends as it does, or about all parameters of a module whose name does: in front of it there may be whatever holds the
model. The more exact pattern wins: that of a parameter over that of a module, then the longer one.

    >>> parts = parts_of("params/model/layers/3/mlp/up_proj/weight")
    >>> is_about("layers.*.mlp.up_proj", parts), is_about("layers.*.mlp", parts)
    ((False, 4), None)
    >>> wildcard(parts)
    'params.model.layers.*.mlp.up_proj.weight'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["is_about", "most_exact", "parts_of", "wildcard"]


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name, which pytrees separate by `/` and torch by dots."""
    return tuple(part for part in re.split(r"[/.]", name) if part)


def is_about(pattern: str, parts: tuple[str, ...]) -> tuple[bool, int] | None:
    """Whether a pattern names a parameter, not a module of it, and how many parts it has; `None` where it is about
    neither.
    """
    wanted = parts_of(pattern)
    if not wanted:
        return None
    for is_parameter, tail in ((True, parts), (False, parts[:-1])):
        if len(wanted) <= len(tail) and all(map(_fits, wanted, tail[len(tail) - len(wanted) :])):
            return is_parameter, len(wanted)
    return None


def _fits(wanted: str, part: str) -> bool:
    return wanted == part or (wanted == "*" and part.isdigit())


def most_exact(patterns: Iterable[str], parts: tuple[str, ...], *, modules: bool = True) -> str | None:
    """The pattern that a parameter goes by; those of `modules` only where they are meant."""
    close = ((is_about(pattern, parts), pattern) for pattern in patterns)
    found = [(closeness, pattern) for closeness, pattern in close if closeness is not None]
    return max((one for one in found if modules or one[0][0]), default=(None, None))[1]


def wildcard(parts: Iterable[str]) -> str:
    """The pattern of a name, with `*` for numbers."""
    return ".".join("*" if part.isdigit() else part for part in parts)
