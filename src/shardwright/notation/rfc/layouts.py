"""Lists of axes as the mesh RFC writes them, in types, annotations and collectives: text → checked positions.

>>> layout("#mesh.shard<@m, [[0], [], [1]]>", 2)
Layout(symbol='m', dims=((0,), ()), partial=(1,))

Source: the mesh RFC on LLVM's forum, MeshShardingAttr.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from shardwright.errors import ShardingError
from shardwright.notation.names import symbol_name
from shardwright.notation.rfc.sharding import read_lists

__all__ = ["ENCODED", "Layout", "Lists", "checked", "layout", "rank_of", "spelled_lists", "trimmed"]

Lists = tuple[tuple[int, ...], ...]
"""Positions of mesh axes, a list per dimension."""

ENCODED = re.compile(r"^tensor<((?:[0-9?]+x)*)([^,]*),\s*(#mesh\.shard<.*>)>$", re.DOTALL)
"""A distributed tensor's type: its sizes, its element type and its sharding."""

_PLAIN = re.compile(r"^tensor<((?:[0-9?]+x)*)")


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor is distributed: the axes that split each dimension, and those along which it is a partial sum.

    `symbol` is the mesh it names, without `@`; empty for that of the function.
    """

    symbol: str
    dims: Lists
    partial: tuple[int, ...] = ()

    @property
    def axes(self) -> tuple[int, ...]:
        """All axes that are used."""
        return (*(axis for axes in self.dims for axis in axes), *self.partial)

    @property
    def text(self) -> str:
        """As the RFC writes it: `[[0], [], [1]]`."""
        return spelled_lists(trimmed((*self.dims, self.partial)))

    def on(self, symbol: str) -> Layout:
        """The same on the mesh `symbol`, where it names none."""
        return self if self.symbol else Layout(symbol, self.dims, self.partial)


@lru_cache(maxsize=4096)
def layout(text: str, rank: int) -> Layout:
    """`#mesh.shard<@m, [[0], [], [1]]>`, or the lists alone, for a tensor of `rank` dimensions.

    Raises:
        ShardingError: malformed text, more than `rank + 1` lists, a negative axis or one that is there twice.
    """
    symbol, lists = read_lists(text)
    return checked(symbol_name(symbol) if symbol else "", tuple(map(tuple, lists)), rank)


def checked(symbol: str, lists: Lists, rank: int) -> Layout:
    """The layout of a tensor of `rank` dimensions that `lists` give, the list past the last dimension the partial axes.

    Raises:
        ShardingError: more than `rank + 1` lists, a negative axis or one that is there twice.
    """
    if len(lists) > rank + 1:
        raise ShardingError(
            f"{len(lists)} lists of axes are given to a tensor of {rank} dimensions",
            cause="there is one list for each dimension and one more for partial axes",
            remedy=f"give at most {rank + 1}",
        )
    seen: set[int] = set()
    for axis in (axis for axes in lists for axis in axes):
        if axis < 0 or axis in seen:
            what = "is negative" if axis < 0 else "is given twice"
            raise ShardingError(
                f"mesh axis {axis} {what} in {spelled_lists(lists)[:200]}",
                cause="an axis splits one dimension, or is partial, once; axes are counted from 0",
                remedy="take it out of one of the lists" if axis >= 0 else "count from 0",
            )
        seen.add(axis)
    filled = lists + ((),) * (rank + 1 - len(lists))
    return Layout(symbol, filled[:rank], filled[rank])


@lru_cache(maxsize=4096)
def rank_of(type: str) -> int | None:
    """The number of dimensions of a tensor type's text, encoded or not; `None` for another type."""
    match = _PLAIN.match(type)
    return match.group(1).count("x") if match and not type.startswith("tensor<*") else None


def trimmed(lists: Lists) -> Lists:
    """Without the empty lists at the end."""
    length = len(lists)
    while length and not lists[length - 1]:
        length -= 1
    return lists[:length]


def spelled_lists(lists: Lists) -> str:
    """`[[0], [], [1]]`."""
    return f"[{', '.join(str(list(axes)) for axes in lists)}]"
