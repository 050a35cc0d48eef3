"""The ops of a block as a linked list: one is put anywhere, or taken out, at the same cost however many there are.

A block holds a list, which is what reading it is fastest with; an op put into the middle of 100,000 moves all that
follow. So a list is linked when its block is changed first, and made anew once, when the changes are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shardwright.ir.graph import Op

__all__ = ["Order"]


class Order:
    """Ops one after another, all different."""

    __slots__ = ("_next", "_previous")

    def __init__(self, ops: Iterable[Op]) -> None:
        """Hold `ops` in their order."""
        self._next: dict[Op | None, Op | None] = {}  # `None` stands at both ends: after it comes the first op
        self._previous: dict[Op | None, Op | None] = {}
        last: Op | None = None
        for op in ops:
            self._next[last] = op
            self._previous[op] = last
            last = op
        self._next[last] = None
        self._previous[None] = last

    def __iter__(self) -> Iterator[Op]:
        """The ops, first to last; nothing may be put in or taken out meanwhile."""
        op = self._next[None]
        while op is not None:
            yield op
            op = self._next[op]

    @property
    def last(self) -> Op | None:
        """The last op, if there is one."""
        return self._previous[None]

    def put(self, op: Op, before: Op | None) -> None:
        """Put an op before another; before `None`, at the end."""
        previous = self._previous[before]
        self._next[previous] = self._previous[before] = op
        self._previous[op], self._next[op] = previous, before

    def take(self, op: Op) -> None:
        """Take an op out."""
        previous, following = self._previous.pop(op), self._next.pop(op)
        self._next[previous], self._previous[following] = following, previous

    def after(self, op: Op | None) -> Op | None:
        """The op behind another, `None` behind the last; behind `None`, the first."""
        return self._next[op]

    def before(self, op: Op) -> Op | None:
        """The op before another, `None` before the first."""
        return self._previous[op]
