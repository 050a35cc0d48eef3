"""A program as it was decided: its ops by what most have in common, how what they read and make lies."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter

from shardwright.ir.graph import Graph, Op
from shardwright.memo import once
from shardwright.partition.decisions import Computed, Decision, Decisions, PassedOn

__all__ = ["Decided"]

_signature = attrgetter("signature")


class Decided:
    """A program as decided.

    Attributes:
        graph: The program.
        decisions: What was decided of it.
        times: How often each of its ops runs.
        ops: Its ops.
        lying: For each op a number, the same for those of which as many tensors lie alike.
        making: The places of the ops for which versions are made.
        keys: For each op what tells it from others: its signature, how its tensors lie, and how often it runs.
    """

    def __init__(self, graph: Graph, decisions: Decisions, times: Sequence[float]) -> None:
        """Look at each different decision once."""
        self.graph = graph
        self.decisions = decisions
        self.times = times
        self.ops = graph.walk()
        of_ops = list(map(id, decisions.ops))
        different = dict(zip(of_ops, decisions.ops, strict=True))
        numbers = dict[Hashable, int]()
        lying = {key: numbers.setdefault(_lying(one), len(numbers)) for key, one in different.items()}
        making = {key for key, one in different.items() if _makes_versions(one)}
        self.lying = list(map(lying.__getitem__, of_ops))
        self.making = list(itertools.compress(itertools.count(), map(making.__contains__, of_ops)))
        self.keys = list(zip(map(id, map(_signature, self.ops)), self.lying, times, strict=True))

    @once
    def of_op(self) -> dict[Op, Decision | None]:
        """What was decided of each op."""
        return dict(zip(self.ops, self.decisions.ops, strict=True))

    @once
    def different(self) -> dict[tuple[int, int, float], tuple[Op, Decision | None]]:
        """For each of the different keys an op, and what was decided of it."""
        return dict(zip(self.keys, zip(self.ops, self.decisions.ops, strict=True), strict=True))

    def made(self) -> Iterable[tuple[int, Decision | None, float]]:
        """For each op for which versions are made its place, what was decided of it, and how often it runs."""
        return ((place, self.decisions.ops[place], self.times[place]) for place in self.making)


def _lying(decision: Decision | None) -> Hashable:
    """How what an op reads and makes lies, which decisions have as few objects."""
    if isinstance(decision, Computed):
        return (*map(id, decision.operands), None, *map(id, decision.results))
    return None


def _makes_versions(decision: Decision | None) -> bool:
    if isinstance(decision, Computed):
        return bool(decision.before or decision.after)
    return isinstance(decision, PassedOn) and bool(decision.before)
