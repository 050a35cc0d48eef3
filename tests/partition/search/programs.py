"""Programs as the search takes them: propagated, padded, and ready to be decided."""

from __future__ import annotations

from shardwright.ir.graph import Graph
from shardwright.partition.cut_pads import with_cut_pads
from shardwright.partition.padding import pad_uneven, with_stated_boundary
from shardwright.partition.rolls import with_rolls
from shardwright.program import Plan

__all__ = ["ready"]


def ready(plan: Plan) -> Graph:
    """The program of a plan as `materialize` decides it."""
    return pad_uneven(with_cut_pads(with_rolls(with_stated_boundary(plan.graph, plan.annotated)))).graph
