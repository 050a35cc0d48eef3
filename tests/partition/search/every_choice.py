"""The least that any choice of a choice graph takes, by looking at all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.types import TensorType
from shardwright.partition.edges import edge_cost, leads_to
from shardwright.partition.search.graph import ChoiceGraph, End
from shardwright.sharding import TensorSharding

__all__ = ["MOST", "EveryChoice"]

MOST = 200_000
"""Choices that are looked at; of programs with more, nothing is compared."""

_Read = tuple[TensorSharding, int]
"""How a value is to lie, and the scope in which it is to lie so."""


class EveryChoice:
    """A choice graph whose choices are all looked at."""

    def __init__(self, graph: ChoiceGraph) -> None:
        """None yet."""
        self.graph = graph
        self.hardware = current_hardware()
        self.looked = 0
        self.of_link = cache(self.link_seconds)
        self.of_pair = cache(self.seconds)
        self.around = cache(lambda link, scope: frozenset(graph.around(graph.links[link], scope)))

    def least(self) -> float | None:
        """By depth first; `None` if there are too many."""
        self.best = math.inf
        try:
            self.node(0, 0.0, {})
        except OverflowError:
            return None
        return self.best

    def node(self, number: int, seconds: float, chosen: Mapping[int, int]) -> None:
        """Choose a node, and all behind it."""
        self.looked += 1
        if self.looked > MOST:
            raise OverflowError
        if seconds >= self.best:
            return
        if number == len(self.graph.nodes):
            self.best = seconds
            return
        node = self.graph.nodes[number]
        for way, own in enumerate(node.seconds):
            now = {**chosen, number: way}
            done = {slot.link for slot in node.slots if self.is_over(slot.link, number)}
            taken = [self.of_link(link, *self.read(link, now)) for link in done]
            self.node(number + 1, seconds + own + sum(taken), now)

    def is_over(self, number: int, node: int) -> bool:
        """Whether a node is the last one of a link."""
        link = self.graph.links[number]
        return max([one for one, _ in (link.maker, *link.readers)]) == node

    def read(self, number: int, chosen: Mapping[int, int]) -> tuple[TensorSharding, frozenset[_Read]]:
        """How a value is made, and how it is read otherwise."""
        link = self.graph.links[number]
        made, *read = [self.lying(end, chosen) for end in (link.maker, *link.readers)]
        return made[0], frozenset(one for one in read if one[0] != made[0])

    def lying(self, end: End, chosen: Mapping[int, int]) -> _Read:
        """How a value lies at an end, and where that is."""
        slot = self.graph.slot(end)
        return slot.layouts[slot.of_way[chosen[end[0]]]], slot.scope

    def link_seconds(self, number: int, made: TensorSharding, read: frozenset[_Read]) -> float:
        """The cheapest tree from the layout that is made to all that are read, each made in the scope of what reads it
        or in one around, and by way of at most one other if there are several readers.
        """
        link, best = self.graph.links[number], 0.0 if not read else math.inf
        around = {scope: self.graph.around(link, scope) for _, scope in read}
        scopes = sorted(set(itertools.chain(*around.values())))
        ends = {layout for end in (link.maker, *link.readers) for layout in self.graph.slot(end).layouts}
        others = sorted(ends - {layout for layout, _ in read} - {made}, key=repr) if len(link.readers) > 1 else []
        for versions in _versions(sorted(read, key=repr), around):
            for more in [(), *[((other, scope),) for other in others for scope in scopes]]:
                best = self.tree(number, (made,), (*versions, *more), 0.0, best, ())
        return best

    def tree(
        self,
        number: int,
        made: tuple[TensorSharding],
        left: Sequence[_Read],
        seconds: float,
        best: float,
        there: tuple[_Read, ...],
    ) -> float:
        """The least that it takes to make versions in any order, each of the cheapest that is there in its scope, if that
        is less than is known.
        """
        if not left or seconds >= best:
            return min(seconds, best)
        link = self.graph.links[number]
        for layout, scope in left:
            seen = self.around(number, scope)
            sources = itertools.chain(made, [one for one, where in there if where in seen])
            least = min([self.of_pair(link.type, source, layout) for source in sources])
            taken = seconds + self.graph.scopes[scope].runs * least
            if taken < best:
                rest = [one for one in left if one != (layout, scope)]
                best = self.tree(number, made, rest, taken, best, (*there, (layout, scope)))
        return best

    def seconds(self, type: TensorType, before: TensorSharding, after: TensorSharding) -> float:
        """What it takes to bring a value from one layout to another."""
        if not leads_to(before, after):
            return math.inf
        return price(edge_cost(type, before, after, self.hardware), self.hardware)


def _versions(read: Sequence[_Read], around: Mapping[int, Sequence[int]]) -> Iterator[tuple[_Read, ...]]:
    """All that may be made for what is read: each version in a scope where who reads it sees it."""
    choices = [[(layout, scope) for scope in around[where]] for layout, where in read]
    yield from dict.fromkeys(tuple(dict.fromkeys(made)) for made in itertools.product(*choices))
