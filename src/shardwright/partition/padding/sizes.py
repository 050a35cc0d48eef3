"""How large the dimensions of a program become where they do not divide by their shards.

Dimensions that go along with each other through ops and round loops get one size, so that nothing is padded anew
between them: it is chosen for all of them, as the one of which devices hold least in all. Those that a reshape merges
or splits get sizes of one ratio: the rows of 130x8 become 132 where the 1040 become 1056.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shardwright.axes import Axes, axes_size, truncate_by_divisor
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.padding.ops import minor_size, paddable
from shardwright.routes import ceil_div
from shardwright.sharding import TensorSharding

__all__ = ["has_uneven", "is_uneven", "next_multiple", "padded_shapes", "program_values"]

Place = tuple[int, int]
"""A value and one of its dimensions."""

Row = tuple[Place, int]
"""A place, and how many of its indices go along with one of the others."""

_HARDLY_MORE = 9 / 8
"""How many times what they hold otherwise devices may hold for a reshape to leave everything where it is."""


def is_uneven(sharding: TensorSharding | None, type: TensorType) -> bool:
    """Whether a sharding does not divide the tensor that it is of."""
    return sharding is not None and type.is_tensor and bool(sharding.mesh.axes) and not sharding.divides(type.dims)


def has_uneven(graph: Graph) -> bool:
    """Whether some sharding of a program does not divide its tensor."""
    pairs = list(zip(graph.shardings, graph.types, strict=True))
    different = dict(zip(zip(map(id, graph.shardings), map(id, graph.types), strict=True), pairs, strict=True))
    return any(is_uneven(*pair) for pair in different.values())


def program_values(graph: Graph) -> Iterator[int]:
    """The arguments and results of all blocks and ops, but for the bodies of manual computations."""
    yield from graph.main.block.arguments
    for op in graph.main.block.walk(opaque=(MANUAL,)):
        yield from op.results
        if op.name != MANUAL:
            for block in op.regions:
                yield from block.arguments


def padded_shapes(graph: Graph) -> dict[int, tuple[int, ...]]:
    """The shape of every value that is padded; of a program whose shardings all divide, none."""
    together = _together(graph)
    sizes = together.sizes()
    shapes: dict[int, tuple[int, ...]] = {}
    for value in program_values(graph):
        sharding, dims = graph.shardings[value], graph.types[value].dims
        if sharding is None or not any(sharding.axes):
            continue
        padded = [
            together.times((value, dim)) * sizes.get(together.set_of((value, dim)), 0) if axes else 0
            for dim, axes in enumerate(sharding.axes)
        ]
        if any(padded):
            shapes[value] = tuple([new or size for new, size in zip(padded, dims, strict=True)])
    return shapes


def _together(graph: Graph) -> _Together:
    """The places of a program, those that go along with each other in one set."""
    together = _Together()
    main = graph.main
    arguments = frozenset(main.block.arguments)
    layouts = [(value, graph.shardings[value], value in arguments) for value in program_values(graph)]
    layouts += [(v, s, True) for v, s in zip(main.block.terminator.operands, main.result_shardings, strict=True)]
    for value, sharding, outside in layouts:
        type = graph.types[value]
        if sharding is None or not type.elements or not bit_width(type.dtype):
            continue
        for dim, axes in enumerate(sharding.axes):
            size, parts = type.dims[dim], axes_size(axes)
            if parts > 1:
                together.add((value, dim), _Member(axes, size, 1, outside and size % parts > 0), type.bytes // size)
    reshaped: list[Sequence[Row]] = []
    for op in main.block.walk(opaque=(MANUAL,)):
        for rows in _alike(graph, op):
            if any(each > 1 for _, each in rows):
                reshaped.append(rows)
            else:
                together.join(rows)
    for rows in reshaped:
        if together.is_less_together(rows):
            together.join(rows)
    return together


@dataclass(frozen=True, slots=True)
class _Member:
    """A dimension that is split.

    Attributes:
        axes: By which axes.
        own: Its size.
        times: How many of its indices there are for one of its set.
        fixed: Whether a caller has its shards, which are those of the least size that its axes divide.
    """

    axes: Axes
    own: int
    times: int
    fixed: bool

    @property
    def is_uneven(self) -> bool:
        """Whether its axes do not divide it."""
        return self.own % axes_size(self.axes) > 0

    @property
    def step(self) -> int:
        """The number of its set is to be a multiple of this for its axes to divide it."""
        parts = axes_size(self.axes)
        return parts // math.gcd(parts, self.times)

    def held(self, count: int) -> int:
        """How many indices a device holds if the number of its set becomes `count`."""
        size = count * self.times
        if self.fixed and size not in (self.own, next_multiple(self.own, axes_size(self.axes))):
            return self.own
        return size // axes_size(truncate_by_divisor(self.axes, size))


_Members = Mapping[_Member, int]
"""Dimensions that are split, each with the bytes of one index of all that are like it."""


class _Together:
    """Places whose sizes go together: a set of them has one number, and each place some times as many indices."""

    def __init__(self) -> None:
        self._set_of: dict[Place, int] = {}
        self._places: list[list[Place]] = []
        self._times: dict[Place, int] = {}
        self._members: list[Counter[_Member]] = []

    def set_of(self, place: Place) -> int:
        """The number of the set that a place is in."""
        if place not in self._set_of:
            self._set_of[place] = len(self._places)
            self._places.append([place])
            self._times[place] = 1
            self._members.append(Counter())
        return self._set_of[place]

    def times(self, place: Place) -> int:
        """How many times the number of its set the size of a place is."""
        self.set_of(place)
        return self._times[place]

    def add(self, place: Place, member: _Member, bytes: int) -> None:
        """Say that a place is split, before it is joined with others."""
        self._members[self.set_of(place)][member] += bytes

    def join(self, rows: Sequence[Row]) -> None:
        """Say that the sizes of these, each divided by its own number, are to be one."""
        first, *others = rows
        for other in others:
            one, two = self.set_of(first[0]), self.set_of(other[0])
            if one != two:
                factors = self._factors(first, other)
                if len(self._places[one]) < len(self._places[two]):
                    one, two, factors = two, one, factors[::-1]
                self._grow(one, factors[0])
                self._grow(two, factors[1])
                self._set_of.update(dict.fromkeys(self._places[two], one))
                self._places[one] += self._places[two]
                self._members[one].update(self._members[two])
                self._places[two], self._members[two] = [], Counter()

    def is_less_together(self, rows: Sequence[Row]) -> bool:
        """Whether devices hold hardly more if the sets of these are one, which may leave them few sizes to take."""
        first, *others = rows
        for other in others:
            pair = self._members[self.set_of(first[0])], self._members[self.set_of(other[0])]
            if self.set_of(first[0]) == self.set_of(other[0]) or not any(one.is_uneven for one in (*pair[0], *pair[1])):
                continue
            grown = [_grown(members, by) for members, by in zip(pair, self._factors(first, other), strict=True)]
            apart = sum(_held(members, _best(members)) for members in pair if members)
            joined = grown[0] + grown[1]
            if _held(joined, _best(joined)) > _HARDLY_MORE * apart:
                return False
        return True

    def _factors(self, row: Row, other: Row) -> tuple[int, int]:
        """By how much the places of two sets have to count more often for these two to go together."""
        mine, its = self.times(row[0]) * other[1], self.times(other[0]) * row[1]
        common = math.gcd(mine, its)
        return its // common, mine // common

    def _grow(self, number: int, by: int) -> None:
        """Take a smaller number for a set."""
        if by > 1:
            self._members[number] = _grown(self._members[number], by)
            for place in self._places[number]:
                self._times[place] *= by

    def sizes(self) -> dict[int, int]:
        """The numbers of sets of which some dimension is uneven, where they are to be others than they are."""
        sizes: dict[int, int] = {}
        for number, members in enumerate(self._members):
            if any(member.is_uneven for member in members):
                best = _best(members)
                if best != _count(members):
                    sizes[number] = best
        return sizes


def _grown(members: _Members, by: int) -> Counter[_Member]:
    """Members each of which has so many times as many indices for one of its set."""
    return Counter({replace(member, times=member.times * by): bytes for member, bytes in members.items()})


def _count(members: _Members) -> int:
    """The number of a set whose dimensions have their own sizes."""
    member = next(iter(members))
    return member.own // member.times


def _held(members: _Members, count: int) -> int:
    """The bytes that a device holds if the number of a set becomes `count`."""
    return sum(member.held(count) * bytes for member, bytes in members.items())


def _best(members: _Members) -> int:
    """The number of which devices hold least; among such, the smallest one."""
    count, steps = _count(members), {member.step for member in members}
    candidates = {count, *(next_multiple(count, step) for step in (*steps, math.lcm(*steps)))}
    return min(sorted(candidates), key=lambda new: _held(members, new))


def _alike(graph: Graph, op: Op) -> Iterator[Sequence[Row]]:
    """Sets of places that an op has in common."""
    if op.name == "stablehlo.optimization_barrier":
        yield from _each_dim(graph, op.operands, op.results)
    elif op.name == "stablehlo.while":
        condition, body = op.regions
        for values in (op.operands, condition.arguments, body.arguments, body.terminator.operands):
            yield from _each_dim(graph, op.results, values)
    elif op.name in ("stablehlo.case", "stablehlo.if"):
        for block in op.regions:
            yield from _each_dim(graph, op.results, block.terminator.operands)
    elif op.name == "sdy.named_computation":
        (block,) = op.regions
        yield from _each_dim(graph, op.operands, block.arguments)
        yield from _each_dim(graph, op.results, block.terminator.operands)
    elif not op.regions and (known := paddable(op.signature)) is not None:
        rule, factors = known
        tensors = zip((*op.operands, *op.results), (*rule.operands, *rule.results), strict=True)
        rows: dict[int, list[Row]] = {factor: [] for factor in factors}
        for value, mapping in tensors:
            for dim, of in enumerate(mapping):
                if of and of[0] in rows:
                    rows[of[0]].append(((value, dim), minor_size(rule, of)))
        yield from filter(None, rows.values())


def _each_dim(graph: Graph, left: Sequence[int], right: Sequence[int]) -> Iterator[Sequence[Row]]:
    for one, other in zip(left, right, strict=True):
        for dim in range(graph.types[one].rank):
            yield ((one, dim), 1), ((other, dim), 1)


def next_multiple(size: int, count: int) -> int:
    """The least multiple of `count` that is not below `size`."""
    return ceil_div(size, count) * count
