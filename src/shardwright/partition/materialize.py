"""Propagated program → explicit program: every op local, every communication an op.

It is looked at (`kinds`, `boundary`), padded where it is uneven (`padding`), decided on (`decide`), and written as
decided (`write`); what users should know of it is told in one list (`notes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardwright.ir.graph import Graph
from shardwright.ir.ops import OWN_COLLECTIVES
from shardwright.memo import uncollected
from shardwright.partition.boundary import check_boundary
from shardwright.partition.check import check
from shardwright.partition.cut_pads import with_cut_pads
from shardwright.partition.decide import decider
from shardwright.partition.fewer_ops import with_fewer_ops
from shardwright.partition.free_axes import with_body_arguments
from shardwright.partition.kinds import check_kinds
from shardwright.partition.late_rows import with_late_rows
from shardwright.partition.note import Note
from shardwright.partition.notes import (
    alone_notes,
    cut_notes,
    decision_notes,
    remove_unread,
    unread_notes,
)
from shardwright.partition.one_mesh import on_one_mesh
from shardwright.partition.op_split import Given
from shardwright.partition.options import state_options
from shardwright.partition.padding import pad_uneven, with_stated_boundary
from shardwright.partition.recognize import recognize
from shardwright.partition.rolls import with_rolls, without_whole_rolls
from shardwright.partition.segments import bound_notes, with_segments
from shardwright.partition.targets import Targets
from shardwright.partition.tensor_constants import with_tensor_constants
from shardwright.partition.unit_axes import without_unit_axes
from shardwright.partition.whole_stacks import with_whole_stacks
from shardwright.partition.write import write
from shardwright.stage import Stage

if TYPE_CHECKING:
    from shardwright.partition.decisions import Decisions
    from shardwright.partition.search.best import Searched
    from shardwright.partition.search.reasons import Reason

__all__ = ["Explicit", "materialize"]


@dataclass(frozen=True, slots=True)
class Explicit:
    """An explicit program (see `partition.check`).

    Attributes:
        graph: The program.
        notes: What is to be said of it.
        searched: What a search for it came to.
        reasons: Why its ops are split as they are, where that was asked for.
    """

    graph: Graph
    notes: tuple[Note, ...]
    searched: Searched | None = None
    reasons: tuple[Reason, ...] | None = None


@uncollected
def materialize(
    graph: Graph,
    annotated: Graph | None = None,
    effort: str = "fast",
    with_reasons: bool = False,
    most_held: float | None = None,
) -> Explicit:
    """Make every communication of a propagated graph explicit. The graph given is left as it is.

    A program that is explicit already (one that was written as such, and read again) is checked and given back.

    Arguments:
        graph: Every tensor has a sharding. Collectives between ops of a program that is not explicit yet ask for
            layouts; other ops may then need more of them.
        annotated: The program that it was propagated from: uneven shardings that this states of arguments and results
            are kept, of which propagation leaves only what divides.
        effort: How hard to look for how ops are best split, one of `EFFORTS`.
        with_reasons: Whether it is told why ops are split as they are.
        most_held: Bytes that a device may hold of a tensor where ops are chosen together, but for what it holds of it
            where each op is split by itself; as the effort has it where that is not said, and always for `lean`.

    Raises:
        ShardingError: an op that has no meaning on one device, a value without sharding, no mesh, or a sharding that
            cannot be partitioned: with offsets or halos, of an argument that is partial by a kind that sdy lacks, or
            of a value that is partial by another kind than its op combines by.
    """
    check_kinds(graph)
    told = (*alone_notes(graph), *bound_notes(graph if annotated is None else annotated))
    graph, annotated = on_one_mesh(graph, annotated)
    check_boundary(graph, annotated)
    graph = _with_own_collectives(with_tensor_constants(graph))
    if graph.stage is Stage.EXPLICIT:
        return _as_it_is(with_body_arguments(with_rolls(recognize(without_unit_axes(graph)))), told, with_reasons)
    graph, annotated = with_segments(graph, annotated)
    stated = graph if annotated is None else with_stated_boundary(graph, annotated)
    padded = pad_uneven(with_cut_pads(with_rolls(stated)))
    given = Given(is_told=effort == "fast")  # a search tells of what it ends with
    graph, targets, decisions = _decided(with_fewer_ops(padded.graph), given)
    decisions, searched = _searched(graph, effort, decisions, targets, most_held)
    reasons = _reasons(graph, decisions) if with_reasons else None
    explicit = recognize(write(graph, decisions))
    notes = (
        *(() if padded.is_even else cut_notes(graph)),
        *told,
        *decision_notes(graph, decisions, padded.resizes),
        *remove_unread(explicit),
    )
    without_whole_rolls(explicit)
    state_options(explicit)
    return Explicit(explicit, notes, searched, reasons)


def _decided(graph: Graph, given: Given) -> tuple[Graph, Targets, Decisions]:
    """What is decided where each op is split as is cheapest for it by itself, of the program as that is best written.

    With what that asks for, which is read off it once.
    """
    targets = Targets(graph)
    decisions = decider(graph, targets)(given)
    late = with_late_rows(graph, decisions)
    if late is not graph:
        graph, targets = late, Targets(late)
        decisions = decider(graph, targets)(given)
    whole, decisions = with_whole_stacks(graph, decisions, given)
    return whole, targets if whole is graph else Targets(whole), decisions


def _with_own_collectives(graph: Graph) -> Graph:
    if OWN_COLLECTIVES.isdisjoint(graph.op_names()):
        return graph
    from shardwright.partition.own_collectives import with_own_collectives  # few programs state any

    return with_own_collectives(graph)


def _as_it_is(graph: Graph, told: Iterable[Note], with_reasons: bool) -> Explicit:
    """A program that is explicit already, checked."""
    check(graph)
    return Explicit(_with_results(graph), (*told, *unread_notes(graph)), reasons=() if with_reasons else None)


def _searched(
    graph: Graph, effort: str, decisions: Decisions, targets: Targets, most_held: float | None
) -> tuple[Decisions, Searched | None]:
    """What is decided with an effort, and what a search for it came to."""
    if effort == "fast":
        return decisions, None
    from shardwright.partition.search.best import search  # and what counts how often loops run
    from shardwright.partition.search.held import most_each

    if effort == "lean":
        return search(graph, "default", decisions, most_each(graph, decisions), targets)
    return search(graph, effort, decisions, most_held, targets)


def _reasons(graph: Graph, decisions: Decisions) -> tuple[Reason, ...]:
    from shardwright.partition.search.reasons import reasons_for  # who has not looked for other ways needs none of it

    return reasons_for(graph, decisions)


def _with_results(graph: Graph) -> Graph:
    """An explicit program whose results lie as the values that it returns, where it does not say how."""
    main = graph.main
    returned = [graph.shardings[value] for value in main.block.terminator.operands]
    shardings = [stated or layout for stated, layout in zip(main.result_shardings, returned, strict=True)]
    return (
        graph if None not in main.result_shardings else replace(graph, main=replace(main, result_shardings=shardings))
    )
