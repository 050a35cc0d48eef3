"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

A bound takes no plan. Of a tensor that is complete, or stays a sum of as many contributions, a device must receive what
it lacks of its part; where a dimension is split by other axes than before, some device has nothing of its part. Whoever
finds that a way was taken for too cheap has it planned, and asks again.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, axes_size, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import most_links, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.far import far_between
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.growing import growing
from shardwright.partition.search.lying import lying_of
from shardwright.reshard.bound import least_of_sums
from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import local_bytes

__all__ = ["Distances"]

_AT_ONCE = 1 << 20
"""How many entries of a table are told at once: what that takes on the way stays small."""


@dataclass(slots=True)
class _Between:
    """What it takes from each of some layouts to each of others.

    Attributes:
        sources: The ones, kept so that nothing else gets their id.
        targets: The others.
        rows: For each of the ones its number.
        columns: For each of the others.
        seconds: The table.
        entered: How often something was entered since it was made.
    """

    sources: Shardings
    targets: Shardings
    rows: Mapping[TensorSharding, int]
    columns: Mapping[TensorSharding, int]
    seconds: Seconds
    entered: int = 0

    def enter(self, source: TensorSharding, target: TensorSharding, seconds: float) -> None:
        """Enter what it takes from a layout to another, if these are among them."""
        row, column = self.rows.get(source), self.columns.get(target)
        if row is not None and column is not None:
            self.seconds[row, column] = seconds
            self.entered += 1


class Distances:
    """Seconds between layouts, as far as they are known."""

    def __init__(self, hardware: Hardware, graph: ChoiceGraph | None = None) -> None:
        """By bounds only.

        Arguments:
            hardware: Where.
            graph: Whose layouts they are mostly, if that is known: tables of some of these are parts of one of all.
        """
        self.hardware = hardware
        self._planned: dict[TensorType, dict[tuple[TensorSharding, TensorSharding], float]] = defaultdict(dict)
        self._between: dict[TensorType, dict[tuple[Shardings, Shardings], _Between]] = defaultdict(dict)
        self._by_ids: dict[tuple[TensorType, int, int], _Between] = {}  # most are asked for by the same layouts
        self._of_all = {} if graph is None else dict(_of_all(graph))
        self._whole: dict[TensorType, _Between] = {}  # by bounds
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
            found = self._made(type, sources, targets)
            self._between[type][sources, targets] = self._by_ids[ids] = found
            for (source, target), seconds in self._planned[type].items():
                found.enter(source, target, seconds)
        return found

    def _made(self, type: TensorType, sources: Shardings, targets: Shardings) -> _Between:
        """A table by bounds: a part of that of all layouts, if they are among these."""
        rows, columns = _numbers_of(sources), _numbers_of(targets)
        if type in self._of_all and type not in self._whole:
            makers, readers = self._of_all[type]
            some = max(1, _AT_ONCE // len(readers))
            parts = [makers[begin : begin + some] for begin in range(0, len(makers), some)]
            seconds = np.concatenate([_table(type, part, readers, self.hardware) for part in parts])
            self._whole[type] = _Between(makers, readers, _numbers_of(makers), _numbers_of(readers), seconds)
        whole = self._whole.get(type)
        if whole and rows.keys() <= whole.rows.keys() and columns.keys() <= whole.columns.keys():
            places = np.ix_(list(map(whole.rows.__getitem__, rows)), list(map(whole.columns.__getitem__, columns)))
            return _Between(sources, targets, rows, columns, whole.seconds[places])
        return _Between(sources, targets, rows, columns, _table(type, sources, targets, self.hardware))

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


def _of_all(graph: ChoiceGraph) -> Iterator[tuple[TensorType, tuple[Shardings, Shardings]]]:
    """The layouts in which values of a type are made, and those in which they are read, of those types of which there
    are fewer pairs of them than in the tables between makers and readers together.
    """
    ends: dict[TensorType, dict[tuple[int, int], tuple[Shardings, Shardings]]] = defaultdict(dict)
    for link in graph.links:
        made = graph.slot(link.maker).layouts
        for read in [graph.slot(end).layouts for end in link.readers]:
            ends[link.type][id(made), id(read)] = made, read
    for type, of_type in ends.items():
        made, read = (tuple(dict.fromkeys(itertools.chain(*each))) for each in zip(*of_type.values(), strict=True))
        pairs = sum([len(one) * len(other) for one, other in of_type.values()])
        if len(of_type) > 1 and len(made) * len(read) <= pairs:
            yield type, (made, read)


@memoize
def _numbers_of(layouts: Shardings) -> Mapping[TensorSharding, int]:
    """Where each layout is."""
    return {layout: number for number, layout in enumerate(layouts)}


def _held(type: TensorType, layouts: Shardings) -> Seconds:
    """Bytes that a device holds in each layout."""
    lying, element_bytes = lying_of(layouts), type.bytes // type.elements
    if not lying.is_even:
        return np.array([float(local_bytes(type.dims, element_bytes, layout)) for layout in layouts])
    sizes = -(-np.array(type.dims, dtype=np.intp) // lying.parts)
    held: Seconds = element_bytes * sizes.prod(axis=1, dtype=float)
    return held


def _table(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds:
    """`least_seconds` for each of some layouts and each of others."""
    if not (type.elements and sources and targets):
        return np.zeros((len(sources), len(targets)))
    needed, start = _held(type, targets), price(Cost(0.0, 1), hardware)
    torus = torus_on(sources[0].mesh.size, hardware.links)
    byte = price(Cost(1.0), hardware) / (1 if torus is None else most_links(torus))
    before, after = lying_of(sources).partial, lying_of(targets).partial
    lacking, moves = _of_moved(sources, targets)
    far, over = far_between(type, sources, targets, hardware), growing(type, sources, targets, hardware)
    table = np.full((len(sources), len(targets)), math.inf)
    held, whole, devices = _held(type, sources), float(type.bytes), sources[0].mesh.size
    for (made, rows), (along, columns) in itertools.product(before.items(), after.items()):
        places, is_moved = (rows[:, None], columns), set(along) == set(made)
        if not (is_moved or set(along) < set(made)):
            continue
        over_links = over.summed(made, along) if over else None
        if is_moved:  # each device receives, or has, contributions of its own to all that it needs
            longer = far.moved(along, rows, columns) if far else None
            sent, starts = lacking[places] * needed[columns], moves[places]
        else:
            contributions, staying = (axes_size([p.axis for p in partial]) for partial in (made, along))
            sums = (contributions // staying, whole * staying, devices)
            sent, started = least_of_sums(held[rows, None], needed[columns], *sums)
            reduced = contributions > staying  # by a collective that leaves where all lies, but for what it cuts
            longer = far.summed(made, along, rows, columns) if far else None
            starts = np.maximum(started, moves[places] + reduced)
        table[places] = _longest(sent * byte, over_links, longer) + starts * start
    return table


def _longest(sent: Seconds, over: Seconds | None, longer: Seconds | None) -> Seconds:
    """The seconds that it takes at least: as long as sending, or what goes over links, and longer to other nodes."""
    most = sent if over is None else np.maximum(sent, over)
    return most if longer is None else most + longer


@memoize
def _of_moved(sources: Shardings, targets: Shardings) -> tuple[Seconds, NDArray[np.int8]]:
    """Which part of what it needs of a tensor in a target a device lacks at least that has it in a source, as complete
    as it shall be, and how many collectives bring it.

    A dimension of which a device needs what it has not takes a gather, if there are to be fewer parts in all: one
    gathers along one dimension.
    """
    before, after = lying_of(sources), lying_of(targets)
    shared = _of_pairs(before.axes, after.axes)[before.numbers[:, None], after.numbers[None]]
    lacking: Seconds = 1 - shared.prod(axis=2)
    moves = (lacking > 0).astype(np.int8)
    if len({layout.mesh for layout in (*sources, *targets)}) == 1:  # else the same devices may have other names
        is_gathered = before.parts.prod(axis=1)[:, None] > after.parts.prod(axis=1)[None]
        moves[is_gathered & ((shared < 1).sum(axis=2) > 1)] = 2
    is_alike = (before.parts[:, None] == after.parts[None]).all(axis=2)
    for row, column in np.argwhere(is_alike & (lacking > 0)):  # few: mostly the same axes elsewhere
        if same_placement(sources[row], targets[column]):
            lacking[row, column], moves[row, column] = 0.0, 0
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
