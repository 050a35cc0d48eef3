"""Which arguments or results a user's keys name: by name, by the path of several, by number, or by a pattern.

>>> names = ["params/w1", "params/w2", "batch"]
>>> select_values(names, {"params": 1, "params/w1": 2, "ba.*": 3})
{0: ('params/w1', 2), 1: ('params', 1), 2: ('ba.*', 3)}
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shardwright.errors import ShardingError
from shardwright.frontends.diagnose import close_names
from shardwright.ir.graph import Graph
from shardwright.ir.locations import pytree_path
from shardwright.words import counted, kind_of

__all__ = ["Key", "select_arguments", "select_values"]

Key = Any
"""What names arguments: a name, a path that several share, a number, or a pattern as text or compiled."""

_EXACT = 1 << 30
"""The closeness of a key that names one value, longer than any path."""

_PATTERN = -1
"""The closeness of a pattern: any name or path is closer."""

_SIGNS = re.compile(r"[.*+?()\[\]{}|^$\\]")


def select_arguments(
    graph: Graph, args: Mapping[Key, Any] | Sequence[Any], source: str = "-"
) -> dict[int, tuple[Key, Any]]:
    """Argument number → the key of `args` that names it most closely, and its value; see `select_values`."""
    return select_values(graph.main.argument_names, args, source)


def select_values(
    names: Sequence[str], given: Mapping[Key, Any] | Sequence[Any], source: str = "-", noun: str = "argument"
) -> dict[int, tuple[Key, Any]]:
    """Number of an argument or result → the key that names it most closely, and what that says.

    Arguments:
        names: What they are called, in order.
        given: A value by key, or a list with one for each, `None` for what is not given. The more specific key wins; a
            pattern, which is searched for in names (`re.search`), gives way to any name or path, and to an earlier one.
        source: What diagnostics call the program.
        noun: What they are.

    Raises:
        ShardingError: a key that names nothing, one that is named twice, or neither names nor a list.
    """
    chosen: dict[int, tuple[Key, Any]] = {}
    closeness: dict[int, int] = {}
    known_as = _Known(names, [pytree_path(name) for name in names])
    for key, value in _by_key(given, source, noun):
        for number, score in _matches(key, known_as, source, noun):
            if score == closeness.get(number) == _EXACT:
                raise ShardingError(
                    f"{noun} {names[number]!r} is given two shardings",
                    location=source,
                    cause=f"{chosen[number][0]!r} and {key!r} both name it",
                    remedy="keep one of them",
                )
            known = closeness.get(number)
            if known is None or score > known or score == known != _PATTERN:
                chosen[number], closeness[number] = (key, value), score
    return chosen


def _by_key(given: Any, source: str, noun: str) -> Iterable[tuple[Key, Any]]:
    """Keys and values; those of a list are the numbers of its entries."""
    if isinstance(given, Mapping):
        return given.items()
    if isinstance(given, (list, tuple)):
        return [(number, value) for number, value in enumerate(given) if value is not None]
    keyword = {"argument": "args", "result": "results"}.get(noun, "modules")
    raise ShardingError(
        f"not shardings of {noun}s: {given!r}"[:200],
        location=source,
        cause=f"it is {kind_of(given)}",
        remedy=f'name the {noun}: {keyword}={{"x": sw.P("data")}}, or give a list with one entry {_article(noun)}',
    )


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class _Known(NamedTuple):
    """What values are called, and the same as paths: the names of PyTorch have dots, `blocks.0.weight`."""

    names: Sequence[str]
    paths: Sequence[str]


def _matches(key: Key, known_as: _Known, source: str, noun: str) -> list[tuple[int, int]]:
    """`(number, closeness)` for all that `key` names; an exact name is the closest."""
    names, name = known_as.names, key if isinstance(key, str) else ""
    path = pytree_path(name)
    for spelling, known in ((name, names), (path, known_as.paths)):
        if spelling in known:
            return [(known.index(spelling), _EXACT)]
    inside = [number for number, known in enumerate(known_as.paths) if name and known.startswith(path + "/")]
    if inside:
        return [(number, len(path)) for number in inside]
    index = int(name) if re.fullmatch(r"\d+", name, re.ASCII) else _number(key)
    if index is None:
        found = _searched(key, names, source)
        if not found:
            raise _unknown(key, names, source, noun)
        return [(number, _PATTERN) for number in found]
    if not 0 <= index < len(names):
        raise ShardingError(
            f"the program has no {noun} number {index}",
            location=source,
            cause=f"it has {counted(len(names), noun)}",
            remedy=f"give an index from 0 to {len(names) - 1}, or a name" if names else "leave it out",
        )
    return [(index, _EXACT)]


def _number(key: Any) -> int | None:
    """The index that a key is, numpy's integers included."""
    try:
        return None if isinstance(key, bool) else operator.index(key)
    except TypeError:
        return None


def _searched(key: Key, names: Sequence[str], source: str) -> list[int]:
    """The values in whose names a pattern is found; text without a sign of patterns is none.

    Raises:
        ShardingError: text that is meant as a pattern and is none.
    """
    if isinstance(key, str) and _SIGNS.search(key):
        try:
            key = re.compile(key)
        except re.error as error:
            raise ShardingError(
                f"not a pattern: {key!r}",
                location=source,
                cause=f"it names nothing as it stands, and as a regular expression: {error}",
                remedy=f"name one of {close_names(key, list(names))}, or mend the expression",
            ) from None
    if not isinstance(key, re.Pattern) or not isinstance(key.pattern, str):
        return []
    return [number for number, name in enumerate(names) if key.search(name)]


def _unknown(key: Key, names: Sequence[str], source: str, noun: str) -> ShardingError:
    text = key.pattern if isinstance(key, re.Pattern) else key
    name = text if isinstance(text, str) else ""
    is_pattern = isinstance(key, re.Pattern) or bool(_SIGNS.search(name))
    what = f"no {noun} matches {text!r}" if is_pattern else f"the program has no {noun} {key!r}"
    near = difflib.get_close_matches(pytree_path(name), _paths(names), n=1, cutoff=0.7)
    general = f"give the name or the index of one of them, or {_OF_SEVERAL}" if names else "leave it out"
    ending = sum(1 for one in names if one.endswith(name)) if name and not is_pattern else 0
    if ending:
        general = f"give the pattern {name + '$'!r}, which names {counted(ending, noun)}, or a whole name"
        near = [] if ending > 1 else near
    return ShardingError(
        what,
        location=source,
        cause=f"it has {counted(len(names), noun)}: {close_names(name, list(names))}" if names else f"it has no {noun}",
        remedy=f"did you mean {near[0]!r}? Else {general}" if near else general,
    )


_OF_SEVERAL = "the path that several share"


def _paths(names: Sequence[str]) -> list[str]:
    """Names, and the paths that lead to them."""
    paths = dict.fromkeys(names)
    for name in names:
        parts = name.split("/")
        paths.update(dict.fromkeys("/".join(parts[:depth]) for depth in range(1, len(parts))))
    return list(paths)
