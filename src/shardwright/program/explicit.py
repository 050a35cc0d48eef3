"""The explicit program of a plan, collectives made better where that is asked for: of some programs the best one.

How ops are best split is chosen by a price in which each collective is started by itself. Passes put collectives
together after that, of which some choices leave more to put together than others: five gradients that are summed start
as one, and a batch that is gathered to have no sums does not. So what each op by itself comes to is made better too,
where the search ends elsewhere, and of both the better one is taken (`optimize.compared`): the faster, unless it holds
much more beside its arguments and results. Where that is not what the search came to, one in which each tensor is
hardly larger on a device than op by op is looked at as well.

Where devices have no room for what the search came to, it is made again with less to be held of any tensor than was of
the largest: a stack of weights that is gathered in front of a loop takes hardly less time than its layers one by one.

Where collectives stay as they are, that is looked at only where a search may have come to hold much more, or more than
devices have room for.

No tensor may be larger than op by op, so that stacks of weights are not gathered in front of a loop to spare the starts
of collectives within. Where these take nearly all of the time, it is searched without that limit as well, and what that
comes to is taken if it takes less than a seventh of the time, sends no more, and holds at most three times as much.

Where nothing is to be traded for time (`lean`), what is brought out of loops may hold hardly more than within. What
each op by itself comes to then says how much may be sent and held, and the fastest of what keeps to that is taken: what
a search for less time comes to, or else one in which each tensor is hardly larger on a device than it is there, or else
each op by itself. What takes less than a seventh of the time may hold more for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardwright.clock import Clock
from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph
from shardwright.memo import current_session
from shardwright.partition import Explicit, Note, materialize

if TYPE_CHECKING:
    from shardwright.optimize import Improvement
    from shardwright.optimize.compared import Demand
    from shardwright.partition.search.best import Searched
    from shardwright.partition.search.reasons import Reason

__all__ = ["MadeExplicit", "made_explicit"]

_ALONE = "each op is split by itself"
_LEAN = "ops are split so that hardly more is held of any tensor than where each is split by itself"
_WITHIN = "ops are split so that less is held of large tensors"
_MORE = "ops are split so that more is held of large tensors"
_PARTS = 2, 4, 16
"""What part of the largest tensor, or of the room that there is, may be held of any where devices lack room."""
_FULL = 0.5
"""What part of the memory may be all of it, as versions of values and what is padded take some too."""
_BESIDE = "beside what a search for less time came to"
_WITHIN_LIMIT = "beside what a search came to in which no tensor may be larger than each op by itself has it"
_MUCH = 0.8
"""What part of the time collectives in loops take where hardly any may be left if more is held in front of them."""


@dataclass(frozen=True, slots=True)
class MadeExplicit:
    """An explicit program.

    Attributes:
        graph: The program.
        notes: What is to be said of it.
        searched: What a search for it came to, where it was asked for.
        improvements: What was made better of its collectives, where it was asked for.
        reasons: Why its ops are split as they are, where it was asked for.
        seconds: What it takes, collectives beside what computes, where that is known.
    """

    graph: Graph
    notes: tuple[Note, ...]
    searched: Searched | None
    improvements: tuple[Improvement, ...] | None
    reasons: tuple[Reason, ...] | None
    seconds: float | None = None


def made_explicit(
    graph: Graph, annotated: Graph, effort: str, optimize: str, to: str, clock: Clock, with_reasons: bool
) -> MadeExplicit:
    """Make every communication explicit, and collectives better where that is asked for.

    Arguments:
        graph: The propagated program.
        annotated: What it was propagated from.
        effort: How hard to look for how ops are best split.
        optimize: What becomes of collectives.
        to: The notation that has to have words for it.
        clock: Hears what it takes.
        with_reasons: Whether it is told why ops are split as they are.

    Raises:
        ShardingError: as of `materialize`.
    """
    making = _Making(graph, annotated, optimize, to, clock, with_reasons)
    if effort == "lean":
        return _lean(making)
    found = making.with_more_held(effort, making.improved(making.explicit(effort)))
    searched = found.searched
    if searched is None or not searched.otherwise or (optimize == "off" and not _may_hold_much_more(searched)):
        return found
    alone = making.improved(making.explicit("fast"))
    demand, other = _demand(alone), _demand(found)
    fits, less = _fitting(making, effort, found, other) if other.excess else (None, other)
    if fits is not None and not demand.is_better(less):
        return fits
    if not demand.is_better(other):
        return found
    explicit = making.explicit("lean")
    if explicit.searched is not None and explicit.searched.otherwise:
        lean = making.improved(explicit)
        less = _demand(lean)
        if less.is_better(demand):
            return _told(lean, _LEAN, less, other, explicit.searched)
    return _told(alone, _ALONE, demand, other, _searched_in_vain(searched))


@dataclass(frozen=True, slots=True)
class _Making:
    """What is made of a plan with one effort or another; see `made_explicit`."""

    graph: Graph
    annotated: Graph
    optimize: str
    to: str
    clock: Clock
    with_reasons: bool

    def explicit(self, effort: str, most_held: float | None = None) -> Explicit:
        """The explicit program as an effort has it, so many bytes of a tensor held where that is said."""
        with self.clock.stage("materialize"):
            return materialize(self.graph, self.annotated, effort, self.with_reasons, most_held)

    def over_a_link(self, effort: str) -> Explicit:
        """The same, decided as if devices had one link each."""
        with current_session().on(current_hardware().with_a_link()):
            return self.explicit(effort)

    def improved(self, explicit: Explicit, *, hoists: bool = True, orders: int | None = None) -> MadeExplicit:
        """Its collectives made better, and brought out of loops, where that is asked for; by other orders of ops, it
        holds so many bytes more at most, or what the hardware has.
        """
        found = explicit.graph, explicit.notes, explicit.searched
        if self.optimize == "off":
            return MadeExplicit(*found, None, explicit.reasons)
        from shardwright.notation.module_notations import module_notation
        from shardwright.optimize import HOISTING, optimizations
        from shardwright.optimize import optimize as improve

        with self.clock.stage("optimize"):
            manual = module_notation(self.to).has_manual
            names = [one.name for one in optimizations() if hoists or one.name != HOISTING]
            made = improve(explicit.graph, names, exact=self.optimize == "exact", orders=orders, manual=manual)
        return MadeExplicit(made.graph, *found[1:], made.improvements, explicit.reasons, made.seconds)

    def with_more_held(self, effort: str, found: MadeExplicit) -> MadeExplicit:
        """What was found, or what a search with larger tensors comes to, if that takes hardly any of the time."""
        if not _may_gain_by_more(found.graph, found.searched):
            return found
        demand = _demand(found)
        more = self.improved(self.explicit(effort, math.inf))
        other = _demand(more)
        if not other.takes_hardly_any_of(demand) or more.searched is None:
            return found
        return _told(more, _MORE, other, demand, more.searched, _WITHIN_LIMIT)

    def within(self, most: Demand, explicit: Explicit, plain: Explicit, *, hoists: bool) -> tuple[MadeExplicit, Demand]:
        """Its collectives made better, by other orders as far as it holds hardly more than each op by itself. Where it
        holds more all the same, as buckets do that wait to be full, by orders that hold less: half as much, or nothing.
        """
        from shardwright.optimize.compared import room_for_orders

        room = room_for_orders(explicit.graph, plain.graph)
        made = self.improved(explicit, hoists=hoists, orders=room)
        demand = _demand(made)
        for less in (room // 2, 0) if room else ():
            if demand.has_room(most):
                break
            made = self.improved(explicit, hoists=hoists, orders=less)
            demand = _demand(made)
        return made, demand


def _lean(making: _Making) -> MadeExplicit:
    """The fastest program that sends and holds hardly more than where each op is split by itself, as if devices had one
    link: over several what sends more may take less.
    """
    from shardwright.optimize import HOISTING
    from shardwright.optimize.compared import room_for_orders

    plain, first = making.over_a_link("fast"), making.over_a_link("default")
    orders = room_for_orders(plain.graph, plain.graph)
    alone, hoists = making.improved(plain, orders=orders), True
    if any(change.by == HOISTING for change in alone.improvements or ()):
        within = making.improved(plain, hoists=False, orders=orders)
        hoists = _demand(alone).is_within(_demand(within))
        alone = alone if hoists else within
    searched = first.searched
    if searched is None or not searched.otherwise:
        return replace(alone, searched=searched)
    least = _demand(alone)
    most = least.or_held_by(plain.graph)  # as it is decided: how little is held in another order is a matter of luck
    found, fastest = making.within(most, first, plain, hoists=hoists)
    is_within = fastest.is_within(most)
    if fastest.takes_hardly_any_of(least) or (is_within and fastest.is_worth_it(least)):
        return found
    if not is_within:
        explicit = making.over_a_link("lean")
        lean, demand = making.within(most, explicit, plain, hoists=hoists)
        if explicit.searched is not None and demand.is_within(most) and demand.is_worth_it(least):
            return _told(lean, _LEAN, demand, fastest, explicit.searched)
    return _told(alone, _ALONE, least, fastest, _searched_in_vain(searched))


def _fitting(making: _Making, effort: str, found: MadeExplicit, demand: Demand) -> tuple[MadeExplicit | None, Demand]:
    """What a search comes to that may hold less of each tensor, where devices have no room for what one came to: the
    first that they have room for, else what is nearest to that, if it is nearer; and what it asks of each device.
    `None` where arguments and results are more than there is room for by themselves, or all that is found is each op by
    itself.
    """
    from shardwright.partition.search.held import bytes_held  # a search has been made

    most, graph = current_hardware().memory_bytes, found.graph
    assert most is not None, "something was held beyond it"
    if most <= demand.boundary:
        return None, demand
    held = (bytes_held(type, layout) for type, layout in zip(graph.types, graph.shardings, strict=True))
    largest, nearest, least = min(most - demand.boundary, max(held, default=0)), None, demand
    for part in _PARTS:
        explicit = making.explicit(effort, largest / part)
        if explicit.searched is None or not explicit.searched.otherwise:
            break
        made = making.improved(explicit)
        less = _demand(made)
        if less.is_better(least):
            nearest, least = _told(made, _WITHIN, less, demand, explicit.searched), less
        if not less.excess:
            break
    return nearest, least


def _may_gain_by_more(graph: Graph, searched: Searched | None) -> bool:
    """Whether a search might come to hardly any of the time of an explicit program if devices might hold more of large
    tensors than they might in the one that was made.
    """
    if searched is None or all(op.name != "stablehlo.while" for op in graph.main.block.ops):
        return False
    if searched.most_held is None or max(type.bytes for type in graph.types if type.is_tensor) <= searched.most_held:
        return False
    from shardwright.optimize.works import part_in_loops

    return part_in_loops(graph) > _MUCH


def _may_hold_much_more(searched: Searched) -> bool:
    """Whether what a search came to may hold so much more than each op by itself that its time is not worth that, or
    more than a device has room for, as far as that can be told of what is decided. Where it says yes, both are written,
    and what they hold at once is looked at.
    """
    most, held = current_hardware().memory_bytes, searched.held
    if most is not None and held.boundary + held.beside > _FULL * most:
        return True
    return searched.seconds**3 * held.beside > searched.seconds_before**3 * searched.held_before.beside


def _demand(made: MadeExplicit) -> Demand:
    """What a program asks of each device."""
    from shardwright.optimize.compared import demand_of

    return demand_of(made.graph, made.seconds)


def _told(
    made: MadeExplicit, what: str, demand: Demand, other: Demand, searched: Searched, beside: str = _BESIDE
) -> MadeExplicit:
    """A program that is taken in place of what another search came to, with the reason."""
    note = Note("func.func", "", f"{what}: {beside}, {demand.reason(other)}", 0, is_fallback=False)
    return replace(made, searched=searched, notes=(*made.notes, note))


def _searched_in_vain(searched: Searched) -> Searched:
    """What a search came to of which nothing is taken."""
    return replace(searched, otherwise=0, seconds=searched.seconds_before, is_left=True)
