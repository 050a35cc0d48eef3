"""How many links of a torus, or of a grid, devices use at once, and how much of what they send goes over the busiest.

Each device has a link to its neighbours, both ways, along each of a few dimensions; where a dimension closes into a
ring, the last has one to the first. Devices that take part in a collective stand on lines, at most one to each
dimension: `m` of them, `n` in all. Along a line a device receives over `r` links at once: two where it is a ring, one
at the end of one that is none; and where devices of other groups stand between them, which send as much over the same
links, that part of it. Of what each device of the group sends in all there goes over its busiest link

    all_gather, reduce_scatter, all_reduce   1/Σr of all lines, or (m − 1)/(n − 1)/r of one, whichever is more
    all_to_all                               along a line what crosses its middle, of the line where that is most
    collective_permute                       as much, and all at least: what goes to a neighbour goes over one link

The other bound of a gather is what the devices that stand at one place of a line must receive, each a part, over their
links along it. Across the middle of a ring of `m` go a quarter of what each has in an exchange and `m/2` times that of
others: `m/8` of it in all, by two links; of a line that is none, `m/4`.

Source: Austin et al., "How to Scale Your Model": collectives over several axes of a torus use the links of all, and an
all_to_all on a ring takes a quarter of a gather of as much.

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(data=4, model=16)
    >>> paths_of((mesh.axis("data"),), mesh, Torus((4, 4, 4), True))
    Paths(of_gather=0.5, of_exchange=0.6666666666666666)
    >>> paths_of((mesh.axis("model"),), mesh, Torus((4, 4, 4), True))
    Paths(of_gather=0.25, of_exchange=0.5333333333333333)
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, primes_of
from shardwright.cost.hardware import Links
from shardwright.memo import memoize
from shardwright.mesh import Mesh

__all__ = [
    "Line",
    "Paths",
    "Torus",
    "hand_on",
    "is_on_grid",
    "join_lines",
    "lines_of",
    "most_links",
    "pairs_over",
    "paths_along",
    "paths_of",
    "paths_of_devices",
    "torus_of",
    "torus_on",
]


class Torus(NamedTuple):
    """How devices are joined, whose ids count along the dimensions, the last one fastest.

    Attributes:
        lengths: How many along each dimension.
        closes: Whether dimensions of more than two are rings.
    """

    lengths: tuple[int, ...]
    closes: bool


class Line(NamedTuple):
    """Devices in a row along one dimension of a torus, as far apart each.

    Attributes:
        dim: The dimension.
        size: How many.
        span: How many places they take up, those of others between them.
        length: How many places the dimension has.
        closes: Whether it is a ring.
    """

    dim: int
    size: int
    span: int
    length: int
    closes: bool

    @property
    def is_ring(self) -> bool:
        """Whether they take up all places of a ring."""
        return self.closes and self.span == self.length

    @property
    def links(self) -> float:
        """Over how many links at once each receives what all get."""
        return (1 + self.is_ring) * min(1.0, self.size / self.span)

    @property
    def crossing(self) -> float:
        """Of what each has of an exchange, what goes over the busiest link."""
        pairs = (self.size // 2) * (self.size - self.size // 2)
        ways = 1 + self.is_ring  # as evenly as shortest ways are, both of them where they are as long
        return pairs / ways / self.size * self.span / self.size


class Paths(NamedTuple):
    """Which part of what each of some devices sends goes over its busiest link, by what they do: more than all of it
    where it goes over several, or over those of others.
    """

    of_gather: float
    of_exchange: float

    def part_of(self, kind: str) -> float:
        """The same of a collective of StableHLO."""
        match kind:
            case "all_to_all":
                return self.of_exchange
            case "collective_permute" | "collective_broadcast" | "collective_reduce":
                return self.of_permute
        return self.of_gather

    @property
    def of_permute(self) -> float:
        """The same where each hands on all that it has."""
        return max(1.0, self.of_exchange)


@memoize
def torus_of(devices: int, dimensions: int, ring: int | None) -> Torus:
    """How so many devices are joined: as nearly a cube as their number allows, and a torus where all lengths are
    multiples of `ring`.

    >>> torus_of(128, 3, 4), torus_of(8, 3, 4)
    (Torus(lengths=(4, 4, 8), closes=True), Torus(lengths=(2, 2, 2), closes=False))
    """
    lengths, rest = list[int](), devices
    for left in range(min(dimensions, devices.bit_length()), 0, -1):
        ideal = rest ** (1 / left) * (1 + 1e-9)
        lengths.append(max(d for d in range(1, 1 + math.floor(ideal)) if rest % d == 0) if left > 1 else rest)
        rest //= lengths[-1]
    return Torus(tuple(sorted(lengths)), ring is not None and all(length % ring == 0 for length in lengths))


def torus_on(devices: int, links: Links | None) -> Torus | None:
    """How so many devices are joined, or those of each node where there are several; `None` where that is no torus."""
    if links is None or links.dimensions is None:
        return None
    return torus_of(min(devices, links.devices_near or devices), links.dimensions, links.ring)


def most_links(torus: Torus) -> int:
    """Over how many links at once a device receives at most."""
    return max(1, sum([1 + (torus.closes and length > 2) for length in torus.lengths if length > 1]))


@memoize
def lines_of(axes: Axes, mesh: Mesh, torus: Torus) -> tuple[Line, ...]:
    """On what lines devices stand that differ along `axes` alone; about so where dimensions cut them unevenly."""
    digits = [mesh.digit(axis) for axis in axes if axis.size > 1]
    if mesh.device_ids is not None:
        parts = list(itertools.chain(*[primes_of(axis) for axis in axes if axis.size > 1]))
        if len(parts) > 1 and is_on_grid(mesh, torus):
            return join_lines(itertools.chain(*[lines_of((part,), mesh, torus) for part in parts]))
        positions = np.zeros(1, dtype=np.intp)
        for stride, size in digits:
            positions = (positions[:, None] + stride * np.arange(size)).ravel()
        return _lines(np.array(mesh.device_ids)[positions], torus)
    lines, step = list[Line](), 1
    for dim in reversed(range(len(torus.lengths))):
        length = torus.lengths[dim]
        for stride, size in digits:
            low, high = max(stride, step), min(stride * size, step * length)
            if high > low:
                lines.append(_line(dim, -(-high // low), -(-high // step), torus))
        step *= length
    return join_lines(lines)


@memoize
def is_on_grid(mesh: Mesh, torus: Torus) -> bool:
    """Whether each smallest part of an axis leads along one dimension, whatever the others are, in steps of one size.

    Then what `lines_of` tells is exact.
    """
    parts = tuple(itertools.chain(*[primes_of(mesh.axis(name)) for name, size in mesh.axes if size > 1]))
    if mesh.device_ids is not None:
        places = np.array(mesh.device_ids).reshape([axis.size for axis in parts])
        return _is_grid(places, torus)
    ends = itertools.accumulate(reversed(torus.lengths), operator.mul, initial=1)
    dims, digits = list(itertools.pairwise(ends)), map(mesh.digit, parts)
    return all(any(stride % low == 0 and high % (stride * size) == 0 for low, high in dims) for stride, size in digits)


def _is_grid(places: NDArray[np.intp], torus: Torus) -> bool:
    """The same of where devices are, by parts of axes."""
    leading, step = np.zeros(places.ndim, dtype=np.intp), 1
    for length in reversed(torus.lengths):
        along = places // step % length - places.flat[0] // step % length
        rows = [along[(0,) * part + (slice(None),) + (0,) * (places.ndim - part - 1)] for part in range(places.ndim)]
        apart = [np.diff(row) for row in rows]
        leading += [bool(one.any()) for one in apart]
        if any((one != one[0]).any() for one in apart) or (functools.reduce(np.add, np.ix_(*rows)) != along).any():
            return False
        step *= length
    return bool((leading == 1).all())


def join_lines(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Where devices stand that differ along several lines: of those along one dimension, on one."""
    joined: dict[int, Line] = {}
    for line in lines:
        other = joined.get(line.dim)
        if other is not None:
            line = line._replace(size=other.size * line.size, span=max(other.span, line.span))
        joined[line.dim] = line
    return tuple([joined[dim] for dim in sorted(joined)])


@memoize
def paths_of(axes: Axes, mesh: Mesh, torus: Torus) -> Paths:
    """What goes over the busiest links where devices talk that differ along `axes` alone."""
    return paths_along(lines_of(axes, mesh, torus))


@memoize
def hand_on(axes: Axes, mesh: Mesh, torus: Torus, is_opposite: bool) -> float:
    """Which part of what it hands to the next along `axes` goes over a device's busiest link; none where others are
    handed the other way at the same time, round a ring or a way through several dimensions.
    """
    lines = lines_of(axes, mesh, torus)
    if is_opposite and (len(lines) > 1 or any(line.is_ring for line in lines)):
        return 0.0
    return min([line.span / line.size for line in lines], default=1.0)


def paths_of_devices(devices: Sequence[int], torus: Torus) -> Paths:
    """The same of devices of these ids."""
    return paths_along(_lines(np.array(devices, dtype=np.intp), torus))


def pairs_over(pairs: Sequence[Sequence[int]], torus: Torus) -> float:
    """How much of what each hands on goes over a link, where it goes from the first of each pair to the second: as
    evenly as shortest ways are, both of them where they are as long, and one link at least.
    """
    ends = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    devices, most, step = np.unique(ends).size, 1.0, 1
    for length in reversed(torus.lengths):
        apart, links, ties = ends[:, 1] // step % length - ends[:, 0] // step % length, float(devices), 0.0
        if torus.closes and length > 2:
            apart = (apart + length // 2) % length - length // 2
            ties = length / 4 * float((2 * apart == -length).sum())  # as far both ways: half of these go ahead
        else:
            links *= (length - 1) / length
        ahead, behind = float(apart[apart > 0].sum()), -float(apart[apart < 0].sum())
        if length > 1:
            most = max(most, (ahead + ties) / links, (behind - ties) / links)
        step *= length
    return most


def paths_along(lines: Sequence[Line]) -> Paths:
    """The same of devices on lines."""
    count = math.prod([line.size for line in lines])
    if count == 1:
        return Paths(1.0, 1.0)
    of_places = max([(line.size - 1) / (count - 1) / line.links for line in lines])
    crossing = max([line.crossing for line in lines])
    return Paths(max(1 / sum([line.links for line in lines]), of_places), crossing * count / (count - 1))


def _line(dim: int, size: int, span: int, torus: Torus) -> Line:
    return Line(dim, size, span, torus.lengths[dim], torus.closes and torus.lengths[dim] > 2)


def _lines(devices: NDArray[np.intp], torus: Torus) -> tuple[Line, ...]:
    """On what lines devices of some ids stand, told by the places that they take up along each dimension."""
    lines, step = list[Line](), 1
    for dim in reversed(range(len(torus.lengths))):
        places = np.unique(devices // step % torus.lengths[dim])
        if places.size > 1:
            apart = int(np.gcd.reduce(np.diff(places)))
            lines.append(_line(dim, places.size, int(places[-1] - places[0]) + apart, torus))
        step *= torus.lengths[dim]
    return tuple(reversed(lines))
