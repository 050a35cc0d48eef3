"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

Whoever finds that a way was taken for too cheap has it planned, and asks again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from shardwright.cost.hardware import Hardware
from shardwright.cost.price import price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.least import least_between, least_seconds
from shardwright.sharding import TensorSharding

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
            seconds = np.concatenate([least_between(type, part, readers, self.hardware) for part in parts])
            self._whole[type] = _Between(makers, readers, _numbers_of(makers), _numbers_of(readers), seconds)
        whole = self._whole.get(type)
        if whole and rows.keys() <= whole.rows.keys() and columns.keys() <= whole.columns.keys():
            places = np.ix_(list(map(whole.rows.__getitem__, rows)), list(map(whole.columns.__getitem__, columns)))
            return _Between(sources, targets, rows, columns, whole.seconds[places])
        return _Between(sources, targets, rows, columns, least_between(type, sources, targets, self.hardware))

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
