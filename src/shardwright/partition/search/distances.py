"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

Whoever finds that a way was taken for too cheap has it planned, and asks again.

A plan may hold no more than its ends do. Where one of several readers has a value gathered, others may have theirs cut
from that, which may take less than a plan of their own. So what each of several takes at least is told by way of any
layout that the value may have at one of its ends.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardwright.cost.hardware import Hardware
from shardwright.cost.price import price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph, Link
from shardwright.partition.search.held import held_in
from shardwright.partition.search.least import least_between, least_seconds
from shardwright.partition.search.sets import MOST, Sets
from shardwright.partition.search.trees import Together, Trees, are_few
from shardwright.sharding import TensorSharding

__all__ = ["Distances", "Tree", "Versions"]

Versions = Together | Sets
"""What all versions of a value take: by the layouts at all of its ends, or by which are read at all."""

_AT_ONCE = 1 << 20
"""How many entries of a table are told at once: what that takes on the way stays small."""


_TOGETHER = 7
"""In how many layouts a value may be read for all of its versions to be told where they are chosen."""


class Tree(NamedTuple):
    """How the versions of a value are made.

    Attributes:
        seconds: What all of them take.
        arcs: Each with what it is made of, which comes first.
    """

    seconds: float
    arcs: tuple[tuple[TensorSharding, TensorSharding], ...]


@dataclass(slots=True)
class _Between:
    """What it takes from each of some layouts to each of others.

    Attributes:
        sources: The ones, kept so that nothing else gets their id.
        targets: The others.
        rows: For each of the ones its number.
        columns: For each of the others.
        by_way: Layouts that a tensor may have on its way, whatever a device holds of it there.
        seconds: The table.
        entered: How often something was entered since it was made.
    """

    sources: Shardings
    targets: Shardings
    rows: Mapping[TensorSharding, int]
    columns: Mapping[TensorSharding, int]
    by_way: Shardings
    seconds: Seconds
    entered: int = 0

    def has(self, source: TensorSharding, target: TensorSharding) -> bool:
        """Whether it tells what it takes from a layout to another."""
        return source in self.rows and target in self.columns

    def enter(self, source: TensorSharding, target: TensorSharding, seconds: float) -> None:
        """Enter that it takes so long, if that was not known."""
        place = self.rows[source], self.columns[target]
        if self.seconds[place] != seconds:
            self.seconds[place] = seconds
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
        self._between: dict[TensorType, dict[tuple[Shardings, ...], _Between]] = defaultdict(dict)
        self._by_ids: dict[tuple[TensorType, int, int, int], _Between] = {}  # most are asked for by the same layouts
        self._ways: dict[tuple[int, ...], tuple[list[Shardings], Shardings]] = {}  # by ends, which are kept
        self._of_all = {} if graph is None else dict(_of_all(graph))
        self._whole: dict[TensorType, _Between] = {}  # by bounds
        self.told: set[int] = set()
        """Values of which it is told what all versions take."""
        self._trees: dict[tuple[int, ...], tuple[int, Trees]] = {}  # by table and layouts, with what was entered then
        self._versions: dict[tuple[object, ...], tuple[Trees, Versions]] = {}  # by type and ends, with what they are of
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

    def of_readers(self, graph: ChoiceGraph, link: Link) -> list[Seconds]:
        """For each reader of a value what it takes at least from each layout in which that is made to each in which it
        is read: of several readers by way of any layout that it may have at one of its ends.
        """
        return [found.seconds for found in self._of_readers(graph, link)]

    def entered_of(self, graph: ChoiceGraph, link: Link) -> int:
        """How often more became known of any of these: while that is the same, so are their tables."""
        return sum([found.entered for found in self._of_readers(graph, link)])

    def tells(self, graph: ChoiceGraph, link: Link, values: Iterable[int]) -> bool:
        """Whether it is told from now on what all versions of a value take, and of others that are as it is: where it
        has few ends, or few layouts at them.
        """
        ends = (link.maker, *link.readers)
        if len({graph.slot(end).scope for end in ends}) > 1 or not self._can_tell(graph, link):
            return False
        self.told.update(values)
        self._changed[link.type] += 1
        self.changes += 1
        return True

    def of_trees(self, graph: ChoiceGraph, link: Link) -> Versions | None:
        """What all versions of a value take; `None` where that is not told."""
        if link.value not in self.told or not self._can_tell(graph, link):
            return None
        trees, numbers = self._trees_of(graph, link)
        ends = [graph.slot(end).layouts for end in (link.maker, *link.readers)]
        key = (link.type, *map(id, ends))
        of, found = self._versions.get(key, (None, None))
        if found is None or of is not trees:
            made, *read = [np.array(list(map(numbers.__getitem__, layouts)), dtype=np.intp) for layouts in ends]
            is_few = are_few(len(numbers), list(map(len, ends)))
            found = Together(trees.table(made, read)) if is_few else Sets(trees.sets(made), read)
            self._versions[key] = trees, found
        return found

    def _can_tell(self, graph: ChoiceGraph, link: Link) -> bool:
        """Whether all versions of a value can be told."""
        layouts = len(self._by_all(graph, link))
        sizes = [len(graph.slot(end).layouts) for end in (link.maker, *link.readers)]
        return layouts <= MOST or are_few(layouts, sizes)

    def tree(self, graph: ChoiceGraph, link: Link, ways: Sequence[int]) -> Tree | None:
        """The versions of a value that are made where every way is chosen; `None` of one that is read in other regions
        than that in which it is made, or in a great many layouts.
        """
        ends = (link.maker, *link.readers)
        scopes = {graph.slot(end).scope for end in ends}
        first, *others = dict.fromkeys([graph.layout(end, ways) for end in ends])
        if len(scopes) > 1 or len(others) > _TOGETHER:
            return None
        trees, numbers = self._trees_of(graph, link)
        layouts, made = list(numbers), numbers[first]
        arcs = trees.arcs(made, [numbers[layout] for layout in others])
        seconds = sum([float(trees.seconds[arc]) for arc in arcs])
        runs = graph.scopes[scopes.pop()].runs
        return Tree(runs * seconds, tuple([(layouts[before], layouts[after]) for before, after in arcs]))

    def _trees_of(self, graph: ChoiceGraph, link: Link) -> tuple[Trees, Mapping[TensorSharding, int]]:
        layouts = self._by_all(graph, link)
        between = self._found(link.type, layouts, layouts)
        key = id(between), id(layouts)
        entered, trees = self._trees.get(key, (-1, None))
        if trees is None or entered != between.entered:
            trees = Trees(between.seconds)
            self._trees[key] = between.entered, trees
        return trees, between.rows

    def _by_all(self, graph: ChoiceGraph, link: Link) -> Shardings:
        """The layouts of a value at all of its ends."""
        ends = [graph.slot(end).layouts for end in (link.maker, *link.readers)]
        ids = tuple(map(id, ends))
        if ids not in self._ways:
            self._ways[ids] = ends, tuple(dict.fromkeys(itertools.chain(*ends)))
        return self._ways[ids][1]

    def _of_readers(self, graph: ChoiceGraph, link: Link) -> list[_Between]:
        made, *read = [graph.slot(end).layouts for end in (link.maker, *link.readers)]
        by_way = self._by_all(graph, link) if link.is_shared else ()
        return [self._found(link.type, made, one, by_way) for one in read]

    def _found(self, type: TensorType, sources: Shardings, targets: Shardings, by_way: Shardings = ()) -> _Between:
        ids = type, id(sources), id(targets), id(by_way)
        found = self._by_ids.get(ids)
        if found is not None:
            return found
        found = self._between[type].get((sources, targets, by_way))
        if found is None:
            found = self._made(type, sources, targets, by_way)
            self._between[type][sources, targets, by_way] = self._by_ids[ids] = found
            for source, target in list(self._planned[type]):  # which may grow
                self._enter(type, found, source, target)
        return found

    def _made(self, type: TensorType, sources: Shardings, targets: Shardings, by_way: Shardings) -> _Between:
        """A table by bounds: a part of that of all layouts, if they are among these."""
        rows, columns = _numbers_of(sources), _numbers_of(targets)
        if type in self._of_all and type not in self._whole:
            makers, readers = self._of_all[type]
            some = max(1, _AT_ONCE // len(readers))
            parts = [makers[begin : begin + some] for begin in range(0, len(makers), some)]
            seconds = np.concatenate([least_between(type, part, readers, self.hardware) for part in parts])
            self._whole[type] = _Between(makers, readers, _numbers_of(makers), _numbers_of(readers), (), seconds)
        whole = self._whole.get(type)
        if whole and rows.keys() <= whole.rows.keys() and columns.keys() <= whole.columns.keys():
            places = np.ix_(list(map(whole.rows.__getitem__, rows)), list(map(whole.columns.__getitem__, columns)))
            return _Between(sources, targets, rows, columns, by_way, whole.seconds[places])
        return _Between(sources, targets, rows, columns, by_way, least_between(type, sources, targets, self.hardware))

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
        for between in list(self._between[type].values()):  # which may grow
            self._enter(type, between, source, target)
        return seconds > known * (1 + 1e-9)

    def _enter(self, type: TensorType, between: _Between, source: TensorSharding, target: TensorSharding) -> None:
        """Enter in a table what was planned."""
        if between.has(source, target):
            seconds = self._planned[type][source, target]
            if between.by_way:
                seconds = self._by_way(type, source, target, between.by_way, seconds)
            between.enter(source, target, seconds)

    def _by_way(
        self, type: TensorType, source: TensorSharding, target: TensorSharding, by_way: Shardings, most: float
    ) -> float:
        """What it takes by way of another layout, or `most` if that is less; what it tells is planned.

        Only such are looked at as hold more than both ends: a plan would lead by way of others.
        """
        held = held_in(type, (source, target, *by_way))
        others = tuple([by_way[number] for number in np.flatnonzero(held[2:] > held[:2].max())])
        if not others:
            return most
        there = least_between(type, (source,), others, self.hardware)[0]
        at_least = there + least_between(type, others, (target,), self.hardware)[:, 0]
        for number in np.argsort(at_least, kind="stable"):
            if at_least[number] >= most:
                break
            pairs = (source, others[number]), (others[number], target)
            for pair in pairs:
                if sum([self(type, *one) for one in pairs]) < most:
                    self.plan(type, *pair)
            most = min(most, sum([self(type, *one) for one in pairs]))
        return most


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
