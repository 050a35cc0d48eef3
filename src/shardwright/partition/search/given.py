"""What links have given to the nodes at their ends, while messages go round.

A node between two others gives all that it is given from one side to the other. So it need not be visited: the links at
both sides and the node are as one link *through* it, which takes for each two layouts at its ends what they take
together at least; and so is a chain of such nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import End, Node
from shardwright.partition.search.groups import Groups
from shardwright.partition.search.stars import Pair, Star

__all__ = ["AtLink", "AtNode", "Through", "gives_all"]

_THROUGH = 100_000
"""How many choices of a node and both ends a link through it may have."""


class AtLink:
    """What a link takes, and what it has given to the nodes at its ends.

    Attributes:
        ends: The ends.
        given: What was given to each, for each layout.
        star: What the value takes; `None` if nobody reads it, or that is not known yet.
        changes: How often that became known.
        parts: What the star makes of what was given, as far as it is known.
        only: The end with several layouts, if that is one alone: what the link takes there depends on nothing else.
        chosen: Of a link of two ends the one at which a layout is chosen, and its number, while a choice is read off.
    """

    __slots__ = ("changes", "chosen", "ends", "given", "only", "parts", "star")

    def __init__(self, ends: Sequence[End], given: Sequence[Seconds]) -> None:
        """Nothing known of the link but its ends, and where what is given to them is kept."""
        self.ends = ends
        self.given = given
        self.star: Star | None = None
        self.changes = 0
        self.parts: list[Seconds | None] = [None] * len(given)
        several = [place for place, one in enumerate(given) if one.size > 1]
        self.only = several[0] if len(several) == 1 else None
        self.chosen: tuple[int, int] | None = None

    def know(self, star: Star | None) -> None:
        """What the value takes is so from now on."""
        self.star = star
        self.changes += 1
        self.forget()
        if star is not None and self.only is not None:
            self.take(self.only)

    def forget(self) -> None:
        """What was given is not what it was, and nothing is chosen."""
        self.parts = [None] * len(self.given)
        self.chosen = None

    def take(self, place: int) -> None:
        """Give the node at an end all that the link takes."""
        assert self.star is not None
        self.star.least(self.given, self.parts, place, self.given[place])
        self.parts[place] = None

    @property
    def is_taken_last(self) -> bool:
        """Whether a node takes all that it can give when messages have gone back, whatever was given before."""
        nodes = [node for (node, _), given in zip(self.ends, self.given, strict=True) if given.size > 1]
        return len(nodes) == 1 or len(set(nodes)) > 1

    def with_chosen(self, place: int) -> Seconds:
        """What it takes at least for each layout at one of its ends, or of two ends more than that by what is the same
        for each; with those chosen at ends of nodes before.
        """
        assert self.star is not None
        if isinstance(self.star, Pair) and self.chosen is not None:
            other, layout = self.chosen
            row: Seconds = self.star.sides[other][layout]
            return row
        least = np.empty(self.given[place].size)
        self.star.least(self.given, self.parts, place, least)
        return least

    def marginal(self, place: int) -> Seconds:
        """What it takes at least for each layout at one of its ends, without what it has given."""
        assert self.star is not None
        least = np.empty(self.given[place].size)
        self.star.least(self.given, self.parts, place, least)
        return least - self.given[place]

    def other(self, place: int) -> int | None:
        """The only other end with several layouts; `None` if there are more, or none."""
        others = [one for one, given in enumerate(self.given) if given.size > 1 and one != place]
        return others[0] if len(others) == 1 else None

    def table(self, place: int) -> Seconds:
        """What it takes for each layout at an end and at the only other one that has several."""
        assert isinstance(self.star, Pair)
        return self.star.sides[place]


AtPlace = tuple[AtLink, int]
"""A link, and one of its ends."""


class Through(AtLink):
    """The links at both sides of a node as one link."""

    __slots__ = ("at", "seen", "sides", "slots", "within")

    def __init__(self, at: AtNode, slots: tuple[int, int], sides: tuple[AtPlace, AtPlace]) -> None:
        """Of a node with these slots of links, each with the place of the node there."""
        others = [(link, other) for link, place in sides if (other := link.other(place)) is not None]
        super().__init__([link.ends[other] for link, other in others], [link.given[other] for link, other in others])
        self.at = at
        self.slots = [at.node.slots[slot].of_way for slot in slots]
        (before, other), _ = others
        _, behind = sides
        self.sides = (before, other), behind
        self.within = [link for link, _ in sides] + [at.links[slot][0] for slot in at.alone]
        self.seen = [0] * len(self.within)

    def refresh(self) -> None:
        """Take what the links at both sides take by now, and those that are the node's alone."""
        (before, other), (behind, place) = self.sides
        changes = [link.changes for link in self.within]
        if self.seen != changes:
            self.seen = changes
            of_first, of_second = self.slots
            first = before.table(other)[:, of_first] + self.at.own()
            second = np.ascontiguousarray(behind.table(place)[of_second].T)
            together = np.minimum.reduce(first[:, None, :] + second, axis=2)
            self.know(Pair(together))


class AtNode:
    """A node, and where its links lead.

    Attributes:
        number: Of the node.
        node: The node.
        groups: For each slot, the ways of the same layout.
        block: What links have given to it, one slot after the other.
        given: The part of each slot.
        rows: That of all slots, where each has a layout for each way, in the same order; else `None`.
        gather: For each slot and way, where in the block it is what was given to the way.
        links: For each slot its link, and which end of that it is.
        near: The same, where links through nodes stand for those that are part of them.
        alone: Those with several layouts of links where no other end has any to choose.
        before: Those of links to nodes before it.
        behind: And to nodes behind it.
        gives_before: To the links of which of them it gives which part of what it has left then.
        gives_behind: And to those of which of these.
    """

    __slots__ = (
        "alone",
        "before",
        "behind",
        "block",
        "gather",
        "given",
        "gives_before",
        "gives_behind",
        "groups",
        "links",
        "near",
        "node",
        "number",
        "rows",
    )

    def __init__(
        self, number: int, node: Node, others: Sequence[Sequence[int]], block: Seconds, groups: Sequence[Groups]
    ) -> None:
        """Of a node of this number, where the links of its slots have several layouts at ends of these nodes, itself
        among them: none of a slot where there is nothing to tell.
        """
        self.number = number
        self.node = node
        sizes = [len(slot.layouts) for slot in node.slots]
        starts = [sum(sizes[:slot]) for slot in range(len(sizes) + 1)]
        self.block = block
        self.given = [self.block[start : start + size] for start, size in zip(starts, sizes, strict=False)]
        self.groups = groups
        is_each = all(groups.is_each for groups in self.groups)
        self.rows = self.block.reshape(len(sizes), -1) if is_each and sizes else None
        self.gather = np.array([start + slot.of_way for start, slot in zip(starts, node.slots, strict=False)], np.intp)
        self.links: dict[int, AtPlace] = {}
        self.near: dict[int, AtPlace] = {}
        self.alone = [slot for slot, nodes in enumerate(others) if len(nodes) == 1]
        told = [(slot, nodes) for slot, nodes in enumerate(others) if len(nodes) > 1]
        self.before = [slot for slot, nodes in told if min(nodes) < number or max(nodes) == number]
        self.behind = [slot for slot, nodes in told if max(nodes) > number]
        left = max(sum(node.slots[slot].share for slot in side) for side in (self.before, self.behind))
        self.gives_before, self.gives_behind = self.parts(self.before, left), self.parts(self.behind, left)

    def parts(self, given: Sequence[int], left: float) -> list[tuple[int, float]]:
        """Slots that something is given to at once, and which part of what is left when it is their turn."""
        parts = list[tuple[int, float]]()
        for slot in given:
            share = self.node.slots[slot].share
            parts.append((slot, share / left))
            left -= share
        return parts

    def between(self) -> Through | None:
        """The link through it, if it gives all that it has to the one side and to the other."""
        if not (len(self.before) == len(self.behind) == 1):
            return None
        (first,), (second,) = self.before, self.behind
        if first == second or not (gives_all(self.gives_before) and gives_all(self.gives_behind)):
            return None
        sides = self.near[first], self.near[second]
        size = len(self.node.seconds)
        for link, place in sides:
            other = link.other(place)
            if other is None or link.ends[other][0] == self.number:
                return None
            size *= link.given[other].size
        return Through(self, (first, second), sides) if size <= _THROUGH else None

    def own(self) -> Seconds:
        """What each way takes by itself, with what links take that are the node's alone."""
        own: Seconds = sum([self.given[slot][self.node.slots[slot].of_way] for slot in self.alone], self.node.seconds)
        return own

    def energy(self) -> Seconds:
        """What each way takes by itself, with what was given to it."""
        rows = self.block[self.gather] if self.rows is None else self.rows
        energy: Seconds = np.add.reduce(rows, 0)
        energy += self.node.seconds
        return energy

    def move(self, taken: Sequence[AtPlace], gives: Sequence[tuple[int, float]]) -> None:
        """Take from the links to nodes on one side all that they can give, and give to those on the other side."""
        for link, place in taken:
            link.take(place)
        if not gives:
            return
        energy, last = self.energy(), gives[-1][0]
        for slot, part in gives:
            link, place = self.links[slot]
            groups = self.groups[slot]
            least = energy if groups.is_each else groups.least(energy)
            if part != 1.0:
                least = least * part
            self.given[slot] -= least
            link.parts[place] = None
            if slot != last:
                energy = energy - groups.spread(least)

    def chosen(self, known: Sequence[int], told: Sequence[int]) -> int:
        """The way that takes least by what is chosen at the links of some slots: from now on what it was given at
        others tells that it is chosen.
        """
        energy = self.energy()
        for slot in known:
            link, place = self.links[slot]
            energy += self.groups[slot].spread(link.with_chosen(place) - self.given[slot])
        way = int(energy.argmin())
        for slot in told:
            link, place = self.links[slot]
            layout, given = int(self.node.slots[slot].of_way[way]), self.given[slot]
            link.chosen = place, layout
            if not isinstance(link.star, Pair):
                seconds = given[layout]
                given[:] = -np.inf
                given[layout] = seconds
                link.parts[place] = None
        return way


def gives_all(parts: Sequence[tuple[int, float]]) -> bool:
    """Whether all that a node has is given to one link."""
    return len(parts) == 1 and parts[0][1] == 1.0
