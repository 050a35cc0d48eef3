"""What a program costs as decided: its ops, what their devices exchange, and all that makes versions of values.

This is what is written, not what was asked for on the way there: a version that several ops read is made once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from shardwright.analysis.loops import block_times
from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.hardware import Hardware, Links
from shardwright.cost.price import Cost, price
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.decisions import Computed, Decision, Decisions, Fresh, Layout, PassedOn, Reshard, Version
from shardwright.partition.edges import copies_of
from shardwright.partition.factors import factor_axes
from shardwright.partition.search.as_decided import Decided, Different, Ops
from shardwright.partition.splits import splits_of
from shardwright.partition.ways import exchange_cost
from shardwright.reshard.plan import weigh
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["Total", "computed_cost", "reshards", "steps_cost", "times_run", "total_seconds"]

_NOTHING = Cost()


def times_run(graph: Graph) -> list[float]:
    """How often each op of `Graph.walk()` runs when the program does: as often as its block (`block_times`)."""
    of_blocks, ops = block_times(graph), graph.walk()
    if len(of_blocks) == 1:
        return list(of_blocks.values()) * len(ops)
    times = {op: count for block, count in of_blocks.items() for op in block.ops}
    return [times[op] for op in ops]


def total_seconds(graph: Graph, decisions: Decisions, times: Sequence[float], hardware: Hardware) -> float:
    """The seconds that a program takes as decided, nothing of it at the same time.

    Arguments:
        graph: The program.
        decisions: What was decided of it.
        times: How often each of its ops runs.
        hardware: Where.
    """
    return Total(Decided(Ops(graph, times), decisions), hardware).seconds


class Total:
    """What a program takes as decided, nothing of it at the same time.

    Attributes:
        of_values: The seconds that making versions of each value takes; nothing of those of which none are made.
        seconds: Those of all.
    """

    def __init__(self, decided: Decided, hardware: Hardware) -> None:
        """Look at each different op once, and at each version that is made."""
        of_each = np.array([_own(one, hardware) for one in decided.different])
        self.of_values = _of_values(decided, hardware)
        self.seconds = float(of_each[decided.number_of].sum()) + sum(self.of_values.values())


def _own(one: Different, hardware: Hardware) -> float:
    if not isinstance(decision := one.decision, Computed):
        return 0.0
    cost = computed_cost(one.op.signature, decision.operands, decision.results, hardware)
    return one.runs * price(cost, hardware)


def _of_values(decided: Decided, hardware: Hardware) -> dict[int, float]:
    types, seconds = decided.graph.types, defaultdict[int, float](float)
    known: dict[tuple[int, int, int], float] = {}  # most versions are made of values that are alike, by the same steps
    for decision, runs in decided.made():
        for version in reshards(decision):
            type = types[version.value]
            key = id(type), id(version.source), id(version.steps)
            if key not in known:
                steps = steps_cost(type, version.source, version.steps, hardware.links)
                known[key] = price(steps + copies_of(type, version.source, version.steps), hardware)
            seconds[version.value] += runs * known[key]
    return seconds


def reshards(decision: Decision | None) -> Iterator[Reshard]:
    """All communication of a decision between layouts."""
    if isinstance(decision, Computed | PassedOn):
        yield from _among(decision.before)
    if isinstance(decision, Computed):
        yield from decision.after


def _among(versions: tuple[Version, ...]) -> Iterator[Reshard]:
    for version in versions:
        if isinstance(version, Fresh):
            yield from _among(version.before)
        else:
            yield version


@memoize
def computed_cost(
    signature: Signature, operands: tuple[Layout, ...], results: tuple[Layout, ...], hardware: Hardware
) -> Cost:
    """What an op whose tensors lie so costs each device of a hardware, with what is exchanged inside it.

    Nothing of an op of which nothing is known: it is computed whole in any case.
    """
    splits = splits_of(signature)
    tensors = tuple([layout for layout in (*operands, *results) if layout is not None])
    if splits is None or len(tensors) < len(operands) + len(results):
        return _NOTHING
    total = splits.work(list(map(axes_size, factor_axes(splits.rule, tensors))), hardware)
    return total + exchange_cost(signature, tensors[: len(operands)], hardware)


@memoize
def steps_cost(type: TensorType, source: TensorSharding, steps: tuple[Step, ...], links: Links | None) -> Cost:
    """What a chain of steps from a layout costs each device, on what they are sent over."""
    element_bytes, by_hand = type.bytes // max(1, type.elements), combined_by_hand(type.dtype)
    return weigh(type.dims, element_bytes, source, steps, by_hand, links).cost
