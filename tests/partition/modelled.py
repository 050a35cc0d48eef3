"""What a plan takes by the price, as its ops are split one by one in order."""

from __future__ import annotations

from shardwright.cost.hardware import current_hardware
from shardwright.partition.cut_pads import with_cut_pads
from shardwright.partition.decide import decide
from shardwright.partition.late_rows import with_late_rows
from shardwright.partition.one_mesh import on_one_mesh
from shardwright.partition.padding import pad_uneven, with_stated_boundary
from shardwright.partition.rolls import with_rolls
from shardwright.partition.search.total import times_run, total_seconds
from shardwright.program import Plan

__all__ = ["modelled_seconds"]


def modelled_seconds(plan: Plan) -> float:
    """The seconds of a plan on the hardware of the session, nothing of it at the same time: of what is written."""
    graph, annotated = on_one_mesh(plan.graph, plan.annotated)
    stated = graph if annotated is None else with_stated_boundary(graph, annotated)
    graph = pad_uneven(with_cut_pads(with_rolls(stated))).graph
    decisions = decide(graph)
    late = with_late_rows(graph, decisions)
    if late is not graph:
        graph, decisions = late, decide(late)
    return total_seconds(graph, decisions, times_run(graph), current_hardware())
