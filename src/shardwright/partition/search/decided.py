"""Which of the ways of a choice graph were decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardwright.ir.graph import Op
from shardwright.partition.decisions import Computed, Decision, Layout
from shardwright.partition.search.graph import Node

__all__ = ["decided_ways"]


def decided_ways(nodes: Iterable[Node], decided: Mapping[Op, Decision | None]) -> tuple[int, ...]:
    """The number of the way of each node that was decided, of an op or of what a loop carries.

    Arguments:
        nodes: Those of a choice graph.
        decided: What was decided of the ops of its program.
    """
    known: dict[tuple[int, int], int] = {}  # of the many ops that have the same ways, and one and the same decision
    ways: list[int] = []
    for node in nodes:
        key = id(node.ways), id(decided[node.op]) if node.ways and node.op else 0
        if not (node.ways and key in known):
            known[key] = _decided_way(node, decided)
        ways.append(known[key])
    return tuple(ways)


def _decided_way(node: Node, decided: Mapping[Op, Decision | None]) -> int:
    if len(node.seconds) == 1 or node.op is None or not node.slots:
        return 0
    decision = decided[node.op]
    assert isinstance(decision, Computed), "what has several ways is computed"
    if node.carried is None:
        for number, way in enumerate(node.ways):  # mostly it is one of the first
            if way.operands == decision.operands and way.results == decision.results:
                return number
        return _number((*decision.operands, *decision.results), [(*way.operands, *way.results) for way in node.ways])
    slot, layout = node.slots[-1], decision.results[node.carried]
    assert layout is not None, "tokens have one layout"
    ways: list[int] = slot.of_way.tolist()
    return ways.index(_number((layout,), [(one,) for one in slot.layouts]))


def _number(decided: Sequence[Layout], ways: Sequence[Sequence[Layout]]) -> int:
    """Which of some ways was decided.

    Of a program on several orders of the devices an op may be looked at on another one than it was decided on: then it
    is the way that splits it alike, and the first, which splits nothing, where none does. The search only starts there.
    """
    if decided in ways:
        return ways.index(decided)
    alike = list(map(_splits, ways))
    wanted = _splits(decided)
    return alike.index(wanted) if wanted in alike else 0


def _splits(layouts: Sequence[Layout]) -> tuple[object, ...]:
    """How tensors are split, on whichever devices."""
    return tuple([layout and (layout.axes, layout.partial) for layout in layouts])
