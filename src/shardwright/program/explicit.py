"""The explicit program of a plan, collectives made better where that is asked for: of two programs the better one.

How ops are best split is chosen by a price in which each collective is started by itself. Passes put collectives
together after that, of which some choices leave more to put together than others: five gradients that are summed start
as one, and a batch that is gathered to have no sums does not. So what each op by itself comes to is made better too,
where the search ends elsewhere, and of both the better one is taken (`optimize.compared`): the faster, unless it holds
much more beside its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardwright.clock import Clock
from shardwright.ir.graph import Graph
from shardwright.partition import Note, materialize

if TYPE_CHECKING:
    from shardwright.optimize import Improvement
    from shardwright.partition.search.best import Searched
    from shardwright.partition.search.reasons import Reason

__all__ = ["MadeExplicit", "made_explicit"]

_BY_ITSELF = "each op is split by itself: beside what a search for less time came to, "


@dataclass(frozen=True, slots=True)
class MadeExplicit:
    """An explicit program.

    Attributes:
        graph: The program.
        notes: What is to be said of it.
        searched: What a search for it came to, where it was asked for.
        improvements: What was made better of its collectives, where it was asked for.
        reasons: Why its ops are split as they are, where it was asked for.
    """

    graph: Graph
    notes: tuple[Note, ...]
    searched: Searched | None
    improvements: tuple[Improvement, ...] | None
    reasons: tuple[Reason, ...] | None


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
    found = _of_effort(graph, annotated, effort, optimize, to, clock, with_reasons)
    searched = found.searched
    if optimize == "off" or searched is None or not searched.otherwise:
        return found
    from shardwright.optimize.compared import demand_of

    alone = _of_effort(graph, annotated, "fast", optimize, to, clock, with_reasons)
    demand, other = demand_of(alone.graph), demand_of(found.graph)
    if not demand.is_better(other):
        return found
    note = Note("func.func", "", _BY_ITSELF + demand.reason(other), 0, is_fallback=False)
    searched = replace(searched, otherwise=0, seconds=searched.seconds_before)
    return replace(alone, searched=searched, notes=(*alone.notes, note))


def _of_effort(
    graph: Graph, annotated: Graph, effort: str, optimize: str, to: str, clock: Clock, with_reasons: bool
) -> MadeExplicit:
    with clock.stage("materialize"):
        explicit = materialize(graph, annotated, effort, with_reasons)
    if optimize == "off":
        return MadeExplicit(explicit.graph, explicit.notes, explicit.searched, None, explicit.reasons)
    from shardwright.notation.module_notations import module_notation
    from shardwright.optimize import optimize as improve

    with clock.stage("optimize"):
        made = improve(explicit.graph, exact=optimize == "exact", manual=module_notation(to).has_manual)
    return MadeExplicit(made.graph, explicit.notes, explicit.searched, made.improvements, explicit.reasons)
