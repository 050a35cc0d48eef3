"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

A bound takes no plan. Of a tensor that is complete, or stays a sum of as many contributions, a device must receive what
it lacks of its part; where a dimension is split by other axes than before, some device has nothing of its part. Whoever
finds that a way was taken for too cheap has it planned, and asks again.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes, axes_size, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.nodes import Spread, is_in_order, spread_of
from shardwright.cost.price import Cost, price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.reshard.bound import least_of_sums
from shardwright.sharding import Partial, TensorSharding, same_placement
from shardwright.steps import local_bytes

__all__ = ["Distances"]


@dataclass(slots=True)
class _Between:
    """What it takes from each of some layouts to each of others.

    Attributes:
        sources: The ones, kept so that nothing else gets their id.
        targets: The others.
        seconds: The table.
        entered: How often something was entered since it was made.
    """

    sources: Shardings
    targets: Shardings
    seconds: Seconds
    entered: int = 0

    def enter(self, source: TensorSharding, target: TensorSharding, seconds: float) -> None:
        """Enter what it takes from a layout to another, if these are among them."""
        if source in self.sources and target in self.targets:
            self.seconds[self.sources.index(source), self.targets.index(target)] = seconds
            self.entered += 1


class Distances:
    """Seconds between layouts, as far as they are known."""

    def __init__(self, hardware: Hardware) -> None:
        """By bounds only."""
        self.hardware = hardware
        self._planned: dict[TensorType, dict[tuple[TensorSharding, TensorSharding], float]] = defaultdict(dict)
        self._between: dict[TensorType, dict[tuple[Shardings, Shardings], _Between]] = defaultdict(dict)
        self._by_ids: dict[tuple[TensorType, int, int], _Between] = {}  # most are asked for by the same layouts
        self._changed: dict[TensorType, int] = defaultdict(int)
        self.changes = 0
        """How often more became known of any: while that is the same, so is what a choice takes."""

    def __call__(self, type: TensorType, source: TensorSharding, target: TensorSharding) -> float:
        """At least so many seconds; infinite where no plan leads there."""
        planned = self._planned[type].get((source, target))
        return least_seconds(type, source, target, self.hardware) if planned is None else planned

    def changed(self, type: TensorType) -> int:
        """How often more became known of tensors of a type: while that is the same, so are all their tables."""
        return self._changed[type]

    def between(self, type: TensorType, sources: Shardings, targets: Shardings) -> Seconds:
        """The same for each of some layouts and each of others."""
        return self._found(type, sources, targets).seconds

    def entered(self, type: TensorType, sources: Shardings, targets: Shardings) -> int:
        """How often more became known of any of these: while that is the same, so is their table."""
        return self._found(type, sources, targets).entered

    def _found(self, type: TensorType, sources: Shardings, targets: Shardings) -> _Between:
        ids = type, id(sources), id(targets)
        found = self._by_ids.get(ids)
        if found is not None:
            return found
        found = self._between[type].get((sources, targets))
        if found is None:
            found = _Between(sources, targets, _table(type, sources, targets, self.hardware))
            self._between[type][sources, targets] = self._by_ids[ids] = found
            for (source, target), seconds in self._planned[type].items():
                found.enter(source, target, seconds)
        return found

    def plan(self, type: TensorType, source: TensorSharding, target: TensorSharding) -> bool:
        """Know it exactly from now on, and tell whether that is more than was known."""
        known = self(type, source, target)
        if (source, target) in self._planned[type] or not leads_to(source, target):
            return False
        seconds = price(edge_cost(type, source, target, self.hardware), self.hardware)
        self._planned[type][source, target] = seconds
        if seconds == known:
            return False
        self._changed[type] += 1
        self.changes += 1
        for between in self._between[type].values():
            between.enter(source, target, seconds)
        return seconds > known * (1 + 1e-9)


class _Lying(NamedTuple):
    """Some layouts as numbers.

    Attributes:
        axes: All that dimensions are split along, each once.
        numbers: For each layout and dimension, which of them.
        parts: And into how many parts.
        partial: By the axes along which they are partial, which layouts: all those that are complete by none.
        is_even: Whether all parts of a dimension are told by how many they are.
    """

    axes: tuple[Axes, ...]
    numbers: Numbers
    parts: Numbers
    partial: dict[tuple[Partial, ...], Numbers]
    is_even: bool


@memoize
def _lying(layouts: Shardings) -> _Lying:
    """Layouts as numbers: those of few lists are between all tables."""
    known: dict[Axes, int] = {}
    numbers = np.array([[known.setdefault(axes, len(known)) for axes in one.axes] for one in layouts], dtype=np.intp)
    sizes = np.array(list(map(axes_size, known)), dtype=np.intp)
    partial: dict[tuple[Partial, ...], list[int]] = {}
    for number, layout in enumerate(layouts):
        partial.setdefault(layout.partial, []).append(number)
    groups = {along: np.array(some, dtype=np.intp) for along, some in partial.items()}
    is_even = all(layout.offsets is None and layout.halos is None for layout in layouts)
    return _Lying(tuple(known), numbers, sizes[numbers], groups, is_even)


def _held(type: TensorType, layouts: Shardings) -> Seconds:
    """Bytes that a device holds in each layout."""
    lying, element_bytes = _lying(layouts), type.bytes // type.elements
    if not lying.is_even:
        return np.array([float(local_bytes(type.dims, element_bytes, layout)) for layout in layouts])
    sizes = -(-np.array(type.dims, dtype=np.intp) // lying.parts)
    held: Seconds = element_bytes * sizes.prod(axis=1, dtype=float)
    return held


def _table(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds:
    """`least_seconds` for each of some layouts and each of others."""
    if not (type.elements and sources and targets):
        return np.zeros((len(sources), len(targets)))
    needed, byte, start = _held(type, targets), price(Cost(1.0), hardware), price(Cost(0.0, 1), hardware)
    before, after = _lying(sources).partial, _lying(targets).partial
    lacking, moves = _of_moved(sources, targets)
    far = _Far.of(type, sources, targets, hardware)
    moved = lacking * needed * byte + moves * start
    if () in before and len(before) == len(after) == 1:
        return moved + far.moved(())
    table = np.full((len(sources), len(targets)), math.inf)
    held, whole, devices = _held(type, sources), float(type.bytes), sources[0].mesh.size
    for (made, rows), (along, columns) in itertools.product(before.items(), after.items()):
        places = np.ix_(rows, columns)
        if set(along) == set(made):  # each device receives, or has, contributions of its own to all that it needs
            table[places] = moved[places] + far.moved(along)[places]
        elif set(along) < set(made):
            contributions, staying = (axes_size([p.axis for p in partial]) for partial in (made, along))
            sums = (contributions // staying, whole * staying, devices)
            sent, starts = least_of_sums(held[rows, None], needed[columns], *sums)
            reduced = contributions > staying  # by a collective that leaves where all lies, but for what it cuts
            table[places] = sent * byte + np.maximum(starts, moves[places] + reduced) * start
            table[places] += far.summed(made, along)[places]
    return table


@dataclass(frozen=True, slots=True)
class _Far:
    """How much longer than in one node it takes at least to bring a tensor from each of some layouts to each of others.

    Of nodes is true what is of devices: each must receive what it lacks of what its devices need, and of contributions
    of `n` nodes an element is sent `n − 1` times until it is whole; by all of its devices alike.

    Attributes:
        byte: How much longer a byte takes to another node.
        near: How many devices a node has; `None` where all are in one, or a mesh is cut unevenly by nodes.
        mesh: The mesh.
        bytes: Those of the tensor.
        needed: Bytes that a device of a node needs of those that the node does, each in equal parts, by layout.
        lacking: Which part of them the node lacks, by both layouts.
    """

    byte: float
    near: int | None
    mesh: Mesh
    bytes: float
    needed: Seconds
    lacking: Seconds

    @staticmethod
    def of(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> _Far:
        """Between these layouts on a hardware."""
        mesh, near = sources[0].mesh, hardware.devices_near
        lies = _lying(sources).is_even and _lying(targets).is_even
        lies = lies and all(layout.mesh == mesh for layout in (*sources, *targets))
        if near is None or mesh.size <= near or not (lies and is_in_order(mesh, near)):
            return _Far(0.0, None, mesh, 0.0, np.zeros(len(targets)), np.zeros((len(sources), len(targets))))
        lacking, nodes = _of_nodes(sources, targets, near)
        byte = price(Cost(bytes_between_nodes=1.0), hardware)
        return _Far(byte, near, mesh, float(type.bytes), type.bytes / nodes / near, lacking)

    def moved(self, along: tuple[Partial, ...]) -> Seconds:
        """Of what is complete, or stays contributions along some axes, of which devices of a node have one each."""
        return self.byte * self.spread(along).together * self.lacking * self.needed

    def spread(self, partial: tuple[Partial, ...]) -> Spread:
        """Where contributions along some axes are."""
        return spread_of(tuple([p.axis for p in partial]), self.mesh, self.near)

    def summed(self, made: tuple[Partial, ...], along: tuple[Partial, ...]) -> Seconds:
        """Of contributions along some axes, of which those along others stay."""
        contributions, staying = self.spread(made).nodes, self.spread(along).nodes
        far = self.lacking * self.needed
        if contributions > staying:
            more = self.bytes * staying * (contributions // staying - 2) / self.mesh.size
            far = np.maximum(far, self.needed[None] + more)
        return self.byte * self.spread(along).together * far


@memoize
def _of_nodes(sources: Shardings, targets: Shardings, near: int) -> tuple[Seconds, Seconds]:
    """Which part of what it needs in a target a node lacks at least whose devices have what they do in a source, and
    into how many parts targets are split between nodes.
    """
    before, after, mesh = _lying(sources), _lying(targets), sources[0].mesh

    def nodes(axes: Axes) -> int:
        return spread_of(axes, mesh, near).nodes

    shared = np.array(
        [[1 / nodes(subtract_axes(one, common_prefix(one, other))) for other in after.axes] for one in before.axes]
    ).reshape(len(before.axes), len(after.axes))
    lacking: Seconds = 1 - shared[before.numbers[:, None], after.numbers[None]].prod(axis=2)
    needs: Seconds = np.array([nodes(axes) for axes in after.axes], dtype=float)[after.numbers].prod(axis=1)
    return lacking, needs


@memoize
def _of_moved(sources: Shardings, targets: Shardings) -> tuple[Seconds, Seconds]:
    """Which part of what it needs of a tensor in a target a device lacks at least that has it in a source, as complete
    as it shall be, and how many collectives bring it.

    A dimension of which a device needs what it has not takes a gather, if there are to be fewer parts in all: one
    gathers along one dimension.
    """
    before, after = _lying(sources), _lying(targets)
    shared = _of_pairs(before.axes, after.axes)[before.numbers[:, None], after.numbers[None]]
    lacking: Seconds = 1 - shared.prod(axis=2)
    moves = (lacking > 0).astype(float)
    if len({layout.mesh for layout in (*sources, *targets)}) == 1:  # else the same devices may have other names
        is_gathered = before.parts.prod(axis=1)[:, None] > after.parts.prod(axis=1)[None]
        moves[is_gathered & ((shared < 1).sum(axis=2) > 1)] = 2.0
    is_alike = (before.parts[:, None] == after.parts[None]).all(axis=2)
    for row, column in np.argwhere(is_alike & (lacking > 0)):  # few: mostly the same axes elsewhere
        if same_placement(sources[row], targets[column]):
            lacking[row, column] = moves[row, column] = 0.0
    return lacking, moves


@memoize
def _of_pairs(before: tuple[Axes, ...], after: tuple[Axes, ...]) -> Seconds:
    """For each axes of a dimension before and after, `_least_shared`."""
    return np.array([[_least_shared(one, other) for other in after] for one in before]).reshape(len(before), len(after))


@memoize
def least_seconds(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> float:
    """Seconds that bringing a tensor from one layout to another takes at least, told without a plan.

    Infinite where no plan leads there, the target being partial and the source not so: contributions are not made.
    """
    return float(_table(type, (source,), (target,), hardware)[0, 0])


def _least_shared(before: Axes, after: Axes) -> float:
    """Which part of what it needs of a dimension the device with least has already; axes of size 1 split nothing."""
    before, after = (tuple([axis for axis in axes if axis.size > 1]) for axes in (before, after))
    same = common_prefix(before, after)
    given, taken = (axes_size(subtract_axes(axes, same)) for axes in (before, after))
    return 0.0 if given > 1 and taken > 1 else 1 / given
