"""The peak of many programs that are made of the same ops: what `memory` tells, of programs without regions.

What an op does to buffers is told once, as rows of tables, and what a program comes to is read off these for all of its
ops at once. A value that is computed begins a buffer, which those have too that share it (a reshape), until the last
of them has been read. Where an op writes into what it reads last, one buffer ends and one of the same size begins, of
which the op has only one. Into which of several it writes makes no difference to how much is alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.analysis.alive import is_computed_where_read
from shardwright.ir.graph import Op
from shardwright.ir.ops import RETURNS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.traits import facts_of

__all__ = ["Peaks"]

_Numbers = NDArray[np.int64]


@memoize
def _of_signature(signature: Signature) -> tuple[tuple[int, ...], bool, bool]:
    """The bytes of what ops of a signature make, and whether they share buffers, or write into those they read."""
    facts, is_nothing = facts_of(signature.name), is_computed_where_read(signature)
    sizes = tuple([0 if is_nothing else type.bytes for type in signature.results])
    return sizes, facts.shares_buffer, facts.in_place or facts.elementwise


class _Column:
    """Numbers, to which more are appended."""

    def __init__(self) -> None:
        self._all = np.zeros(1024, np.int64)
        self._count = 0
        self.new: list[int] = []

    @property
    def numbers(self) -> _Numbers:
        """All of them."""
        if self.new:
            start, self._count = self._count, self._count + len(self.new)
            if self._count > len(self._all):
                self._all = np.concatenate([self._all, np.zeros(max(self._count, len(self._all)), np.int64)])
            self._all[start : self._count] = self.new
            self.new.clear()
        return self._all


class _Rows:
    """Rows of numbers, of any length each, behind one another."""

    def __init__(self) -> None:
        self.numbers, self._lengths, self._starts = _Column(), _Column(), _Column()
        self._end = 0

    def append(self, row: Sequence[int]) -> None:
        self.numbers.new += row
        self._lengths.new.append(len(row))
        self._starts.new.append(self._end)
        self._end += len(row)

    def places(self, rows: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Where the numbers of some rows are, one row after the other, and for each in which of these it is."""
        lengths = self._lengths.numbers[rows]
        which = np.repeat(np.arange(len(rows)), lengths)
        ahead = self._starts.numbers[rows] - np.cumsum(lengths) + lengths
        return np.arange(len(which)) + ahead[which], which


class _Told(NamedTuple):
    """An op whose results share the buffers of its operands, or one that may write several results into them."""

    op: Op
    sizes: tuple[int, ...]
    is_sharing: bool


class Peaks:
    """Tells the peaks of programs whose ops it was told of."""

    def __init__(self) -> None:
        """No op is known yet."""
        self._reads, self._makes = _Rows(), _Rows()
        self._sizes = _Column()  # the bytes of what is made
        self._written = _Column()  # for each op, the bytes of what it may write into something that it reads
        self._kinds = _Column()  # for each op, whether it is one of the others
        self._others: dict[int, _Told] = {}
        self._count = 0

    def number(self, op: Op) -> int | None:
        """The number of what an op without regions does to buffers; `None` where it does nothing."""
        sizes, is_sharing, is_reusing = _of_signature(op.signature)
        if not (op.operands or any(sizes) or op.name in RETURNS):
            return None
        number, self._count = self._count, self._count + 1
        is_other = is_sharing or (is_reusing and len(sizes) > 1)
        if is_other:
            self._others[number] = _Told(op, sizes, is_sharing)
        self._kinds.new.append(is_other)
        self._reads.append(op.operands)
        self._makes.append(() if is_sharing else op.results)
        self._sizes.new += () if is_sharing else sizes
        self._written.new.append(sizes[0] if is_reusing and sizes and not is_other else 0)
        return number

    def peak(
        self, arguments: Sequence[tuple[int, int]], donated: Collection[int], ops: Sequence[int], count: int
    ) -> int:
        """The most bytes that are alive at once in a block, as `memory` counts them.

        Arguments:
            arguments: The arguments, each with its bytes.
            donated: Those that may be overwritten.
            ops: The numbers of what its ops do, in order; the last one returns what it reads.
            count: More than any value's number.
        """
        rows = np.array(ops, np.int64)
        places, reading = self._reads.places(rows)
        reads = self._reads.numbers.numbers[places]
        places, making = self._makes.places(rows)
        makes, sizes = self._makes.numbers.numbers[places], self._sizes.numbers[places]
        written = self._written.numbers[rows]
        others = [(place, self._others[ops[place]]) for place in self._kinds.numbers[rows].nonzero()[0].tolist()]

        size = np.zeros(count, np.int64)
        size[makes] = sizes
        given = dict(arguments)
        size[list(given)] = list(given.values())
        kept = given.keys() - set(donated)
        last = np.full(count, -1)
        last[reads] = reading  # of several that read a value the last one stays
        last[makes] = np.maximum(last[makes], making)
        leader = _led(others, last)
        last[list(kept)] = len(ops)

        begun = np.array([value for value in given if last[value] >= 0], np.int64)
        change = np.zeros(len(ops) + 2, np.int64)
        change[0] = size[begun].sum()
        np.add.at(change, making, sizes)
        ending = np.concatenate([begun, makes])
        np.subtract.at(change, last[ending] + 1, size[ending])
        alive = change.cumsum()[: len(ops)]

        into, wanted = leader[reads], written[reading]
        fits = (size[into] == wanted) & (last[into] == reading)
        once = np.zeros(len(ops), np.int64)
        once[reading[fits]] = wanted[fits]
        for place, told in others:
            if not told.is_sharing:
                once[place] = _written_into(told, place, leader, size, last)
        alive -= once
        copied = sum([given[value] for value in reads[reading == len(ops) - 1].tolist() if value in kept])
        return max(sum(given.values()), int(alive.max()), int(alive[-1]) + copied)


def _led(others: list[tuple[int, _Told]], last: _Numbers) -> _Numbers:
    """For each value the one whose buffer it shares, which lives until the last of them has been read."""
    leader = np.arange(len(last))
    for place, told in others:
        if told.is_sharing:
            for value, operand in zip(told.op.results, told.op.operands, strict=True):
                leader[value] = first = leader[operand]
                last[first] = max(last[first], last[value], place)
    return leader


def _written_into(told: _Told, place: int, leader: _Numbers, size: _Numbers, last: _Numbers) -> int:
    """The bytes of the results that an op writes into what it reads last, of those that fit as many as there are."""
    roots = {int(leader[value]) for value in told.op.operands}
    free = Counter([int(size[root]) for root in roots if last[root] == place])
    needed = Counter(told.sizes)
    return sum([bytes * min(number, free[bytes]) for bytes, number in needed.items()])
