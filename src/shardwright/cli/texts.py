"""The ends of help texts, and what is read from texts on the command line."""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.frontends.specs import GRAMMAR
from shardwright.notation.notation import Shape
from shardwright.propagation import STRATEGY_WORDS

__all__ = ["epilog", "examples", "parse_shape"]

_STRATEGIES = "\n".join(["Strategies:", *(f"  {name:<19} {words}" for name, words in STRATEGY_WORDS.items())])


def epilog(*commands: str) -> str:
    """The end of a help text: how shardings of arguments are written, the strategies, and examples."""
    return f"\b\n{GRAMMAR}\n\n\b\n{_STRATEGIES}\n\n{examples(*commands)}"


def examples(*commands: str) -> str:
    """The end of a help text: examples."""
    lines = "\n".join(f"  {command}" for command in commands)
    return f"\b\nExamples:\n{lines}"


def parse_shape(text: str) -> Shape:
    """`8x16` as sizes.

    Raises:
        ShardingError: it is not a shape.
    """
    sizes = [size.strip() for size in text.split("x")] if text.strip() else []
    for size in sizes:
        if not re.fullmatch(r"\d{1,18}", size, re.ASCII):
            raise ShardingError(
                f"not a shape: {text!r}",
                cause=f"{size!r} is not a size" if size else "a size is missing",
                remedy='write it as 8x16, and "" for a scalar',
            )
    return tuple(map(int, sizes))
