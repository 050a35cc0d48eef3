"""Modules of the `sdy` dialect itself: what every other notation is read into and written from."""

from __future__ import annotations

import re

from shardwright.ir.context import ir
from shardwright.notation.notation import ModuleNotation, mentions
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify

__all__ = ["looks_like"]

_MARK = re.compile(r'(?<!xla\.)(?<!"#)\bsdy\.[a-z_]+')
"""Of the dialect; not of what other programs carry for it, as `xla.sdy.sharding_rule = "#sdy.op_sharding_rule<…>"`."""


def looks_like(content: str | bytes) -> bool:
    """Whether a module says anything in this dialect."""
    return b"sdy\0" in content if isinstance(content, bytes) else mentions(_MARK, content)


def _as_it_is(module: ir.Module) -> None:
    """A module in sdy is one already."""


NOTATION = ModuleNotation("sdy", "the dialect of OpenXLA's Shardy", looks_like, prepare, verify, _as_it_is, str)
