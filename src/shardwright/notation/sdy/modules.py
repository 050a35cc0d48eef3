"""Modules of the `sdy` dialect itself: what every other notation is read into and written from."""

from __future__ import annotations

import re

from shardwright.ir.context import ir
from shardwright.notation.notation import ModuleNotation, mentions
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify

__all__ = ["looks_like"]

_MARK = re.compile(r"\bsdy\.[a-z_]+")


def looks_like(content: str | bytes) -> bool:
    """Whether a module says anything in this dialect."""
    return b"sdy" in content if isinstance(content, bytes) else mentions(_MARK, content)


def _as_it_is(module: ir.Module) -> None:
    """A module in sdy is one already."""


NOTATION = ModuleNotation("sdy", "the dialect of OpenXLA's Shardy", looks_like, prepare, verify, _as_it_is, str)
