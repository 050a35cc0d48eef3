"""Which of the ways of a choice graph were decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shardwright.ir.graph import Op
from shardwright.partition.decisions import Computed, Decision
from shardwright.partition.search.graph import Node

__all__ = ["decided_ways"]


def decided_ways(nodes: Iterable[Node], decided: Mapping[Op, Decision | None]) -> tuple[int, ...]:
    """The number of the way of each node that was decided, of an op or of what a loop carries.

    Arguments:
        nodes: Those of a choice graph.
        decided: What was decided of the ops of its program.
    """
    return tuple([_decided_way(node, decided) for node in nodes])


def _decided_way(node: Node, decided: Mapping[Op, Decision | None]) -> int:
    if len(node.seconds) == 1 or node.op is None:
        return 0
    decision = decided[node.op]
    assert isinstance(decision, Computed), "what has several ways is computed"
    if node.carried is None:
        layouts: list[object] = [(way.operands, way.results) for way in node.ways]
        return layouts.index((decision.operands, decision.results))
    slot, layout = node.slots[-1], decision.results[node.carried]
    assert layout is not None, "tokens have one layout"
    ways: list[int] = slot.of_way.tolist()
    return ways.index(slot.layouts.index(layout))
