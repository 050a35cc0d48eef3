"""Versions of values that are made in front of loops and branches, since these read them.

In front of a loop a version is made once, and not in every turn. What a branch makes only that branch has: a version
that is read behind it as well, or in every branch, is made in front of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from shardwright.ir.graph import Op
from shardwright.partition.search.graph import End, Link, scopes_around
from shardwright.partition.search.outline import Outline
from shardwright.sharding import TensorSharding

__all__ = ["made_in_front"]

_Version = tuple[int, TensorSharding]
"""A value, and how it lies."""

_Path = tuple[int, ...]
"""The scopes in which a reader stands, from outside, those left out in which the value is made."""

_Read = tuple[int, _Path]
"""Which reader of a value it is, or is made for, and where it stands."""


def made_in_front(
    choices: Outline, links: Sequence[Link], ways: Sequence[int], made_of: Mapping[_Version, TensorSharding]
) -> dict[Op, tuple[_Version, ...]]:
    """For each loop, and op with branches, the values that are made in front of it, and how they lie then.

    Arguments:
        choices: What there was to choose.
        links: The values that are read in regions which stand where they were made.
        ways: Of every node, the number of the way chosen.
        made_of: Versions, with the one that each is to be made of.
    """
    made: dict[Op, dict[_Version, None]] = defaultdict(dict)
    for link in links:
        first, reads = choices.layout(link.maker, ways), defaultdict[TensorSharding, list[_Read]](list)
        for number, end in enumerate(link.readers):
            layout = choices.layout(end, ways)
            if layout != first and not layout.partial:
                reads[layout].append((number, _path(choices, link, end)))
        for layout in _last_first(link.value, reads, made_of):
            paths = [path for _, path in sorted(reads[layout])]
            ops = dict.fromkeys((*_loops(choices, paths), *_shared(choices, paths)))
            for op in ops:
                made[op][link.value, layout] = None
            before = made_of.get((link.value, layout), first)
            if before != first:
                reads[before] += [(number, _in_front_of(choices, ops, path)) for number, path in reads[layout]]
    return {op: tuple(versions) for op, versions in made.items()}


def _last_first(
    value: int, read: Iterable[TensorSharding], made_of: Mapping[_Version, TensorSharding]
) -> list[TensorSharding]:
    """The layouts in which a value is read, and those of which these are made, each behind all that are made of it."""
    found = dict[TensorSharding, None]()
    for layout in read:
        one: TensorSharding | None = layout
        while one is not None:
            found.pop(one, None)
            found[one] = None
            one = made_of.get((value, one))
    return list(found)


def _in_front_of(choices: Outline, ops: Container[Op], path: _Path) -> _Path:
    """Where what is read there is made, if it is made in front of some ops."""
    for depth, scope in enumerate(path):
        if _op(choices, scope) in ops:
            return path[:depth]
    return path


def _path(choices: Outline, link: Link, end: End) -> _Path:
    around = scopes_around(choices.scopes, choices.place(end).scope, choices.place(link.maker).scope)
    return tuple(reversed(around[:-1]))


def _op(choices: Outline, scope: int) -> Op:
    op = choices.scopes[scope].op
    assert op is not None, "it stands in another one"
    return op


def _loops(choices: Outline, paths: Sequence[_Path]) -> Iterator[Op]:
    """The outermost loop around each reader."""
    for path in paths:
        for scope in path:
            here = choices.scopes[scope]
            assert here.parent is not None
            if here.runs > choices.scopes[here.parent].runs:
                yield _op(choices, scope)
                break


def _shared(choices: Outline, paths: Sequence[_Path]) -> Iterator[Op]:
    """The ops in whose regions a version would be made that others need too: readers are in order."""
    if not (paths and paths[0]):
        return  # made where it is read first, and there from then on
    op = _op(choices, paths[0][0])
    inside = [path for path in paths if path and _op(choices, path[0]) is op]
    regions: dict[int, list[_Path]] = defaultdict(list)
    for scope, *rest in inside:
        regions[scope].append(tuple(rest))
    if len(inside) < len(paths) or len(regions) == len(op.regions) > 1:
        yield op
        return
    for of_region in regions.values():
        yield from _shared(choices, of_region)
