"""A program as it was decided: its ops by what most have in common, how what they read and make lies."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from shardwright.ir.graph import Graph, Op
from shardwright.memo import once
from shardwright.partition.decisions import Computed, Decision, Decisions, PassedOn
from shardwright.partition.search.rows import Numbers

__all__ = ["Decided", "Different", "Ops"]

_signature = attrgetter("signature")


class Ops:
    """The ops of a program, whatever is decided of them.

    Attributes:
        graph: The program.
        times: How often each runs.
        each: The ops, in the order of the program.
        signatures: For each the id of its signature.
    """

    def __init__(self, graph: Graph, times: Sequence[float]) -> None:
        """Walk through a program."""
        self.graph = graph
        self.times = times
        self.each = graph.walk()
        self.signatures = list(map(id, map(_signature, self.each)))

    @once
    def tensors(self) -> tuple[Numbers, Numbers]:
        """How many values each op reads and makes, and these, one op after the other."""
        values = [(*op.operands, *op.results) for op in self.each]
        counts = np.fromiter(map(len, values), np.intp, len(values))
        return counts, np.fromiter(itertools.chain.from_iterable(values), np.intp, int(counts.sum()))


class Different(NamedTuple):
    """What ops have in common that have the same signature, tensors that lie alike, and run as often.

    Attributes:
        op: One of them.
        decision: What was decided of it.
        runs: How often each runs.
    """

    op: Op
    decision: Decision | None
    runs: float


class Decided:
    """A program as decided.

    Attributes:
        of: Its ops.
        graph: The program.
        decisions: What was decided of it.
        times: How often each of its ops runs.
        ops: Its ops.
        lying: For each op a number, the same for those of which as many tensors lie alike.
        making: The places of the ops for which versions are made.
        different: What ops are that are not the same in all that matters here.
        number_of: For each op the number of what it is of these.
    """

    def __init__(self, of: Ops, decisions: Decisions) -> None:
        """Look at each different decision once."""
        self.of, self.graph, self.times, self.ops = of, of.graph, of.times, of.each
        self.decisions = decisions
        of_ops = list(map(id, decisions.ops))
        each_once = dict(zip(of_ops, decisions.ops, strict=True))
        numbers = dict[Hashable, int]()
        lying = {key: numbers.setdefault(_lying(one), len(numbers)) for key, one in each_once.items()}
        making = {key for key, one in each_once.items() if _makes_versions(one)}
        self.lying = list(map(lying.__getitem__, of_ops))
        self.making = list(itertools.compress(itertools.count(), map(making.__contains__, of_ops)))
        keys = list(zip(of.signatures, self.lying, of.times, strict=True))
        each = zip(of.each, decisions.ops, of.times, strict=True)
        different = dict(zip(keys, each, strict=True))
        self.different = list(itertools.starmap(Different, different.values()))
        number_of = dict(zip(different, itertools.count(), strict=False))
        self.number_of = np.fromiter(map(number_of.__getitem__, keys), np.intp, len(keys))

    @once
    def of_op(self) -> dict[Op, Decision | None]:
        """What was decided of each op."""
        return dict(zip(self.ops, self.decisions.ops, strict=True))

    def made(self) -> Iterable[tuple[Decision | None, float]]:
        """For each op for which versions are made what was decided of it, and how often it runs."""
        return ((self.decisions.ops[place], self.times[place]) for place in self.making)


def _lying(decision: Decision | None) -> Hashable:
    """How what an op reads and makes lies, which decisions have as few objects."""
    if isinstance(decision, Computed):
        return (*map(id, decision.operands), None, *map(id, decision.results))
    return None


def _makes_versions(decision: Decision | None) -> bool:
    if isinstance(decision, Computed):
        return bool(decision.before or decision.after)
    return isinstance(decision, PassedOn) and bool(decision.before)
