"""Text of modules cut where it matters: brackets that belong together, and ops as their custom syntax has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from shardwright.notation.names import STRING

__all__ = ["ShardedOp", "Unclosed", "closing", "outside_strings", "properties", "statement"]

_BRACKET = re.compile(rf"{STRING}|//[^\n]*|->|[()\[\]{{}}<>]")
_KIND = re.compile(r"\s*(?:([a-z_]\w*)\s*(?=[{\[]))?")
_OPERAND = re.compile(r"\s*(%[\w$.-]+(?:#\d+)?)\s*(?:(?:out_)?sharding\s*=\s*)?(?=<)")
_OPERANDS = re.compile(r"\s*(\([^()]*\))\s*(?=<\{)")
_DICTIONARY = re.compile(r"\s*(?=\{)")
_TYPE = re.compile(r"\s*:\s*([!\w.]+)")
_SHARDING = re.compile(r"\b(?:out_)?sharding\s*=\s*(?=#sdy\.sharding<)")


class Unclosed(Exception):
    """A bracket is never closed: MLIR's parser will say where."""


@dataclass(frozen=True, slots=True)
class ShardedOp:
    """An op of one operand and its sharding.

    Attributes:
        operand: `%x`.
        sharding: `<@mesh, [{"x"}]>`.
        parameters: What stands between the op's name and its operand: `max {"x"}`.
        extra: Entries of its attribute dictionary.
        tail: What follows them, from `:` on: the types.
        end: Position after it.
    """

    operand: str
    sharding: str
    parameters: str
    extra: str
    tail: str
    end: int


def closing(text: str, start: int) -> int:
    """The position after the bracket that closes the one at `start`.

    Raises:
        Unclosed: none does.
    """
    depth = 0
    for match in _BRACKET.finditer(text, start):
        bracket = match[0]
        if len(bracket) == 1:
            depth += 1 if bracket in "([{<" else -1
            if depth == 0:
                return match.end()
    raise Unclosed


def outside_strings(pattern: str, replace: Callable[[re.Match[str]], str], text: str) -> str:
    """`text` with every match of `pattern` that is neither in a string nor in a comment replaced."""
    whole = re.compile(rf"{STRING}|//[^\n]*|(?P<found>{pattern})")
    return whole.sub(lambda match: match[0] if match["found"] is None else replace(match), text)


def statement(text: str, start: int) -> ShardedOp | None:
    """The op whose name ends at `start`, in custom syntax; `None` for what MLIR's parser will refuse."""
    at = _end(_KIND.match(text, start), start)
    if text[at : at + 1] in ("{", "["):
        at = closing(text, at)
    parameters = text[start:at]
    operand = _OPERAND.match(text, at)
    if operand is None:
        return None
    end = closing(text, operand.end())
    sharding = text[operand.end() : end]
    extra, end = _dictionary(text, end)
    type = _TYPE.match(text, end)
    if type is None:
        return None
    last = closing(text, type.end()) if text[type.end() : type.end() + 1] == "<" else type.end()
    spelt = text[type.start(1) : last]
    return ShardedOp(operand[1], sharding, parameters, extra, f": ({spelt}) -> {spelt}", last)


def properties(text: str, start: int) -> ShardedOp | None:
    """The op whose name ends at `start`, in generic form, up to its types; `None` for one without a sharding."""
    operands = _OPERANDS.match(text, start)
    if operands is None:
        return None
    end = closing(text, operands.end())
    inner = text[operands.end() + 2 : end - 2]
    sharding = _SHARDING.search(inner)
    if sharding is None:
        return None
    bracket = sharding.end() + len("#sdy.sharding")
    last = closing(inner, bracket)
    rest = (inner[: sharding.start()] + inner[last:]).strip(" ,\n")
    extra, end = _dictionary(text, end)
    return ShardedOp(operands[1].strip("()"), inner[bracket:last], rest, extra, "", end)


def _dictionary(text: str, at: int) -> tuple[str, int]:
    start = _DICTIONARY.match(text, at)
    if start is None:
        return "", at
    end = closing(text, start.end())
    return text[start.end() + 1 : end - 1].strip(), end


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()
