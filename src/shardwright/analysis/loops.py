"""How often the body of a loop runs, where the program text says so.

A loop that counts has a condition `compare(counter, bound)`, a counter that starts at a constant and a body that adds a
constant to it:

    >>> trips(first=0, step=1, bound=32, direction="LT"), trips(first=10, step=-3, bound=1, direction="GE")
    (32, 4)
"""

from __future__ import annotations

from operator import attrgetter

from shardwright.analysis.scalars import Scalars
from shardwright.ir.graph import Block, Graph, Op

__all__ = ["block_times", "trip_count", "trips"]

_regions = attrgetter("regions")

_MIRRORED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "NE": "NE"}


def block_times(graph: Graph) -> dict[Block, float]:
    """How often each block of a program runs when the program does, its own once.

    A body of a loop runs as often as its text tells, once where that depends on data; each of the branches of a `case`
    is as likely as the others.
    """
    if not any(map(_regions, graph.main.block.ops)):
        return {graph.main.block: 1.0}
    scalars = Scalars(graph, devices=1)
    times: dict[Block, float] = {}

    def enter(block: Block, count: float) -> None:
        times[block] = count
        for op in block.ops:
            if not op.regions:  # nearly all
                continue
            inside = count
            if op.name == "stablehlo.while":
                inside *= max(1, trip_count(op, scalars) or 1)
            elif op.name in ("stablehlo.case", "stablehlo.if"):
                inside /= len(op.regions)
            for region in op.regions:
                enter(region, inside)

    enter(graph.main.block, 1.0)
    return times


def trip_count(loop: Op, scalars: Scalars) -> int | None:
    """How often the body of a `stablehlo.while` runs, or `None` where that depends on data."""
    condition, body = loop.regions
    test = scalars.origin(condition.terminator.operands[0])
    if test is None or test.name != "stablehlo.compare":
        return None
    direction = test.signature.get("comparison_direction")
    left, right = test.operands
    counter = scalars.argument(left, loop)
    bound = scalars.constant(right)
    if bound is None:
        counter, bound = scalars.argument(right, loop), scalars.constant(left)
        direction = _MIRRORED.get(direction)
    if counter is None or bound is None:
        return None
    first = scalars.constant(loop.operands[counter])
    step = _step(body.terminator.operands[counter], counter, loop, scalars)
    return None if first is None or step is None else trips(first, step, bound, direction)


def _step(value: int, counter: int, loop: Op, scalars: Scalars) -> int | None:
    """By how much the body changes the counter."""
    op = scalars.origin(value)
    if op is None or op.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    left, right = op.operands
    if op.name == "stablehlo.add" and scalars.argument(left, loop) != counter:
        left, right = right, left
    step = scalars.constant(right)
    if scalars.argument(left, loop) != counter or step is None:
        return None
    return step if op.name == "stablehlo.add" else -step


def trips(first: int, step: int, bound: int, direction: str | None) -> int | None:
    """How often a counter from `first` by `step` meets `counter DIRECTION bound`; `None` where it never ends."""
    if direction in ("GT", "GE"):
        return trips(-first, -step, -bound, _MIRRORED[direction])
    if direction == "NE":
        reached = step != 0 and (bound - first) % step == 0 and (bound - first) // step >= 0
        return (bound - first) // step if reached else None
    if direction not in ("LT", "LE"):
        return None
    end = bound + (direction == "LE")
    if first >= end:
        return 0
    return -((first - end) // step) if step > 0 else None
