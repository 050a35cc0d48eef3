"""The names that a text gives to the arguments of a program, which MLIR forgets."""

from __future__ import annotations

import itertools
import re

__all__ = ["NAMED_ARGUMENT", "argument_names", "text_in"]

NAMED_ARGUMENT = re.compile(r"%([\w.$-]+)\s*:")
"""An argument where it is defined, in a function's head."""


def argument_names(content: str | bytes, function: str, count: int) -> list[str]:
    """The names that the text gives to the `count` arguments of a function, numbers replaced by `argN`."""
    text = text_in(content)
    start = re.search(rf'func\.func\s[^@]*@"?{re.escape(function)}"?\s*\(', text)
    if start is None:
        return []
    matches = itertools.islice(NAMED_ARGUMENT.finditer(text, start.end()), count)
    return [match[1] if match[1][0].isalpha() else f"arg{number}" for number, match in enumerate(matches)]


def text_in(content: str | bytes) -> str:
    """The text that a program came as; none for bytecode."""
    if isinstance(content, str):
        return content
    return "" if content.startswith(b"ML\xefR") else content.decode(errors="replace")
