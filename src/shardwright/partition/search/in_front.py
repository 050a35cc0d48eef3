"""Versions of values that are made in front of loops and branches, since these read them.

In front of a loop a version is made once, and not in every turn. What a branch makes only that branch has: a version
that is read behind it as well, or in so many branches that these run as often together as what is around them, is made
in front of all of them.
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

_ROUNDED = 1e-9
"""A part of how often something runs that is rounding."""


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
    """The outermost loop around each reader, but where it reads in a branch that runs less often than the loop does."""
    for path in paths:
        for depth, scope in enumerate(path):
            around = _runs_around(choices, scope)
            if choices.scopes[scope].runs > around:
                if min([choices.scopes[one].runs for one in path[depth:]]) >= around:
                    yield _op(choices, scope)
                break


def _runs_around(choices: Outline, scope: int) -> float:
    parent = choices.scopes[scope].parent
    assert parent is not None, "it stands in another one"
    return choices.scopes[parent].runs


def _shared(choices: Outline, paths: Sequence[_Path]) -> Iterator[Op]:
    """The ops in whose regions a version would be made that others need too: readers are in order."""
    if not (paths and paths[0]):
        return  # made where it is read first, and there from then on
    regions = _by_region(paths)
    runs, inside = _runs_around(choices, paths[0][0]), sum([_runs(choices, *region) for region in regions.items()])
    if not all(paths) or inside > runs * (1 + _ROUNDED) or (len(regions) > 1 and inside >= runs * (1 - _ROUNDED)):
        yield _op(choices, paths[0][0])
        return
    for of_region in regions.values():
        yield from _shared(choices, of_region)


def _runs(choices: Outline, scope: int, paths: Sequence[_Path]) -> float:
    """How often a version is made at least for readers in a scope, or farther inside."""
    runs = choices.scopes[scope].runs
    if not all(paths):
        return runs
    return min(runs, sum([_runs(choices, *region) for region in _by_region(paths).items()]))


def _by_region(paths: Sequence[_Path]) -> dict[int, list[_Path]]:
    """By the outermost scopes of readers the others of each."""
    regions: dict[int, list[_Path]] = defaultdict(list)
    for scope, *rest in filter(None, paths):
        regions[scope].append(tuple(rest))
    return regions
