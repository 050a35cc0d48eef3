"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

A bound takes no plan. Of a tensor that is complete a device must receive what it lacks of its part; where a dimension
is split by other axes than before, some device has nothing of its part. Whoever finds that a way was taken for too
cheap has it planned, and asks again.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, axes_size, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import edge_bound, edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.reshard.bound import least_to_complete
from shardwright.sharding import TensorSharding, same_placement
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


def _table(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds:
    """`least_seconds` for each of some layouts and each of others."""
    if not (type.elements and sources and targets):
        return np.zeros((len(sources), len(targets)))
    element_bytes = type.bytes // type.elements
    needed = np.array([float(local_bytes(type.dims, element_bytes, target)) for target in targets])
    table = _of_complete(type, sources, targets, needed, hardware)
    several = [number for number, target in enumerate(targets) if target.partial]
    for row, source in enumerate(sources):
        if source.partial:
            sent, starts = least_to_complete(type.dims, element_bytes, source, needed)
            table[row] = sent * price(Cost(1.0), hardware) + starts * price(Cost(0.0, 1), hardware)
        for column in several:
            reaches = leads_to(source, targets[column])
            table[row, column] = least_seconds(type, source, targets[column], hardware) if reaches else math.inf
    return table


def _of_complete(
    type: TensorType, sources: Shardings, targets: Shardings, needed: Seconds, hardware: Hardware
) -> Seconds:
    """The same of layouts that are complete; of others anything. `needed` is what a device holds in each target."""
    shared, is_alike = np.ones((len(sources), len(targets))), np.ones((len(sources), len(targets)), dtype=bool)
    for dim in range(len(type.dims)):
        before, rows = _each_once([one.axes[dim] for one in sources])
        after, columns = _each_once([one.axes[dim] for one in targets])
        places = np.ix_(rows, columns)
        of_pairs, alike_pairs = _of_pairs(before, after)
        shared *= of_pairs[places]
        is_alike &= alike_pairs[places]
    lacking = needed * (1 - shared)
    for row, column in np.argwhere(is_alike & (lacking > 0)):  # few: mostly the same axes elsewhere
        if same_placement(sources[row], targets[column]):
            lacking[row, column] = 0.0
    return lacking * price(Cost(1.0), hardware) + (lacking > 0) * price(Cost(0.0, 1), hardware)


@memoize
def _of_pairs(before: tuple[Axes, ...], after: tuple[Axes, ...]) -> tuple[Seconds, NDArray[np.bool_]]:
    """For each axes of a dimension before and after, `_least_shared`, and whether they split it into as many parts."""
    sizes = np.array(list(map(axes_size, before))), np.array(list(map(axes_size, after)))
    shared = np.array([[_least_shared(one, other) for other in after] for one in before])
    return shared, sizes[0][:, None] == sizes[1]


def _each_once(axes: Sequence[Axes]) -> tuple[tuple[Axes, ...], list[int]]:
    """Lists of axes each once, and the number of each that was given."""
    numbers: dict[Axes, int] = {}
    places = [numbers.setdefault(one, len(numbers)) for one in axes]
    return tuple(numbers), places


@memoize
def least_seconds(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> float:
    """Seconds that bringing a tensor from one layout to another takes at least, told without a plan.

    Infinite where no plan leads there, the target being partial and the source not so: contributions are not made.
    """
    if source == target or not type.elements:
        return 0.0
    if not leads_to(source, target):
        return math.inf
    if source.partial:
        return price(edge_bound(type, source, target), hardware)
    if same_placement(source, target):
        return 0.0
    needed = local_bytes(type.dims, type.bytes // type.elements, target)
    lacking = needed * (1 - math.prod(map(_least_shared, source.axes, target.axes)))
    return price(Cost(lacking, int(lacking > 0)), hardware)


def _least_shared(before: Axes, after: Axes) -> float:
    """Which part of what it needs of a dimension the device has already that has least."""
    same = common_prefix(before, after)
    given, taken = (axes_size(subtract_axes(axes, same)) for axes in (before, after))
    return 0.0 if given > 1 and taken > 1 else 1 / given
