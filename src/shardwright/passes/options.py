"""Options of passes as MLIR writes them: `keep-sharding-rules=true propagation-strategy=basic`.

A value with blanks stands in quotes or braces; a comma belongs to the value, which may be a list. A bool without a
value is true.

Source: MLIR's "Pass Infrastructure", Textual Pass Pipeline Specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from shardwright.errors import ShardingError
from shardwright.passes.registry import Option, Options, Pass, Pipeline

__all__ = ["options_text", "parse_options"]

_NAME = re.compile(r"\s*([^\s={}]+)(=?)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLS = {"true": True, "1": True, "": True, "false": False, "0": False}
_PAIRS = {"{": "}", "(": ")", "[": "]", "<": ">"}
_QUOTES = "'\""


def parse_options(entry: Pass | Pipeline, text: str) -> dict[str, Any]:
    """The options of `entry` that `text` gives, the others at their defaults; the last of two wins, as in MLIR.

    Raises:
        ShardingError: malformed text, an option that there is not, or a value of another kind.
    """
    known = {option.name: option for option in entry.options}
    values: dict[str, Any] = {option.name: option.default for option in entry.options}
    for name, value in _written(text):
        if name not in known:
            raise ShardingError(
                f"no such option {name}",
                cause=f"{entry.name} has {', '.join(sorted(known)) or 'no options'}",
                remedy="correct the name, or take the option out",
            )
        values[name] = _value(known[name], value, entry.name)
    return values


def options_text(entry: Pass, options: Options, *, changed_only: bool = False) -> str:
    """`{a=b c=d}` with the options by name, as MLIR prints them, empty lists left out; nothing for a pass without any.

    With `changed_only`, those alone that are not at their defaults.
    """
    values = {option: options[option.name] for option in sorted(entry.options, key=lambda option: option.name)}
    kept = {
        option: value
        for option, value in values.items()
        if not (changed_only and value == option.default) and not (option.is_list and value == "")
    }
    return f"{{{' '.join(f'{option.name}={_spelt(option, value)}' for option, value in kept.items())}}}" if kept else ""


def _spelt(option: Option, value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return f"{{{text}}}" if option.is_list or re.search(r"\s", text) else text


def _written(text: str) -> Iterator[tuple[str, str | None]]:
    """The names and values in order; no value is `None`."""
    at = 0
    while text[at:].strip():
        name = _NAME.match(text, at)
        if name is None:
            raise _malformed(text, at)
        at = name.end()
        if not name[2]:
            yield name[1], None
            continue
        end = _end_of_value(text, at)
        yield name[1], _bare(text[at:end])
        at = end


def _end_of_value(text: str, at: int) -> int:
    """Where the value that starts at `at` ends: at a blank outside quotes and brackets."""
    closers: list[str] = []
    start = at
    while at < len(text):
        char = text[at]
        if closers and char == closers[-1]:
            closers.pop()
        elif closers and closers[-1] in _QUOTES:
            pass
        elif char in _QUOTES:
            closers.append(char)
        elif char in _PAIRS:
            closers.append(_PAIRS[char])
        elif not closers and char.isspace():
            return at
        at += 1
    if closers:
        raise _malformed(text, start)
    return at


def _bare(value: str) -> str:
    """A value without the quotes or the braces around all of it."""
    if len(value) > 1 and (value[0] in _QUOTES or value[0] == "{") and value[-1] == _PAIRS.get(value[0], value[0]):
        return value[1:-1]
    return value


def _value(option: Option, text: str | None, name: str) -> bool | int | str:
    if isinstance(option.default, bool):
        value = _BOOLS.get((text or "").lower())
        if value is not None:
            return value
        raise _invalid(option, text, name, "a bool: true or false")
    if text is None:
        raise _invalid(option, text, name, "given with a value")
    if isinstance(option.default, int):
        if _INTEGER.fullmatch(text):
            return int(text)
        raise _invalid(option, text, name, "a whole number")
    if option.choices and text not in option.choices:
        raise _invalid(option, text, name, f"one of {', '.join(option.choices)}")
    return text


def _invalid(option: Option, text: str | None, name: str, expected: str) -> ShardingError:
    return ShardingError(
        f"{'no value' if text is None else repr(text[:100])} for option {option.name} of {name}",
        cause=f"the option is {expected}",
        remedy=f"write {option.name}=VALUE",
    )


def _malformed(text: str, at: int) -> ShardingError:
    return ShardingError(
        f"malformed options {text[:200]!r}",
        cause=f"column {at + 1}: got {text[at : at + 40]!r}",
        remedy="write NAME=VALUE NAME=VALUE; a value with blanks stands in quotes or braces",
    )
