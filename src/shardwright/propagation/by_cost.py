"""Propagation by cost: what its choices are priced by, gathered from the program."""

from __future__ import annotations

from shardwright.analysis.loops import block_times
from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph, Op
from shardwright.propagation.engine.propagator import Propagator
from shardwright.propagation.engine.rivals import OpFigures, Rivals, work_of
from shardwright.propagation.working import EDGE

__all__ = ["rivals_in"]


def rivals_in(propagator: Propagator, graph: Graph) -> Rivals:
    """What chooses among shardings that compete in a program, on the hardware of the session.

    Arguments:
        propagator: What is to propagate through it.
        graph: The program as it is propagated.

    Raises:
        ShardingError: what the session was given is not hardware.
    """
    times = {op: count for block, count in block_times(graph).items() for op in block.ops}
    types = graph.types
    figures: list[OpFigures | None] = []
    for op, values, rule in zip(propagator.ops, propagator.worklist.tensors, propagator.rules, strict=True):
        if rule is None:
            figures.append(None)
            continue
        work = work_of(None if op.name == EDGE else op.signature, rule)
        figures.append(OpFigures(*work, tuple([types[value] for value in values]), _times(propagator, op, times)))
    return Rivals(propagator.worklist, figures, current_hardware())


def _times(propagator: Propagator, op: Op, times: dict[Op, float]) -> tuple[float, ...]:
    """How often each operand of an op is brought to it, and each result made; over an edge data flows at each turn."""
    edge = propagator.edges.get(op)
    if edge is None:
        return (times[op],) * (len(op.operands) + len(op.results))
    handed_in = [times[reader] for reader in edge.readers]
    return (*handed_in, max(handed_in))
