"""The fastest program that is found, and how far from the optimum it can be at most."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph
from shardwright.partition.decide import decider
from shardwright.partition.decisions import Computed, Decision, Decisions
from shardwright.partition.op_split import Given
from shardwright.partition.search.as_decided import Decided, Ops
from shardwright.partition.search.held import Held, Most, held_by, most_to_hold
from shardwright.partition.search.integer import Limits
from shardwright.partition.search.reduced import Budget
from shardwright.partition.search.total import Total, times_run
from shardwright.partition.search.whole import Best, choose
from shardwright.partition.targets import Targets

__all__ = ["BUDGETS", "Searched", "search"]

BUDGETS = {
    "default": Budget(
        whole=800,
        nodes=250,
        apart=4_000,
        sweeps=(24, 6),
        each=Limits(entries=150_000, gap=1e-3, work=500_000, relaxes=True),
        all=500_000,
        iterations=60_000,
        rounds=8,
        ways=4_000,
        near=2.5e-3,
        passes=7_000_000,
        lifted=150_000,
        unfolded=40_000,
    ),
    "best": Budget(
        whole=1_000,
        nodes=1_000,
        apart=8_000,
        sweeps=(100, 20),
        each=Limits(entries=250_000, gap=1e-6, work=5_000_000, relaxes=True),
        all=1_000_000,
        iterations=1_000_000,
        rounds=12,
        ways=1_000_000,
        near=1e-5,
        passes=100_000_000,
        lifted=1_000_000,
        unfolded=100_000,
    ),
}
"""What bounds the time of each effort that chooses ops together."""

_BEFORE = {"best": ("default",)}
"""The efforts from which others go on: none finds less than they do."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came to. Seconds are by the price, of each device, nothing of it at the same time.

    Attributes:
        otherwise: How many ops are decided otherwise than where each is split as is cheapest for it by itself.
        seconds: What the program takes.
        seconds_before: What it takes where each op is split so.
        seconds_least: What it takes at least, however its ops are split; 0 where nothing is known of it.
        trials: Programs that were chosen.
        seconds_least_alike: What it takes at least with those ops split alike that are alike, as those of layers are:
            larger programs are looked at so only.
        held: What a device holds of it, about.
        held_before: The same where each op is split so.
        most_held: Bytes that a device might hold of any tensor, but for those of which it holds more op by op; `None`
            where nothing was said of that.
        is_left: Whether what was found was left for each op by itself, as what holds less or is better otherwise.
    """

    otherwise: int
    seconds: float
    seconds_before: float
    seconds_least: float
    trials: int
    seconds_least_alike: float
    held: Held
    held_before: Held
    most_held: float | None = None
    is_left: bool = False

    @property
    def gap(self) -> float | None:
        """How much more the program takes than it must at least, as a part of that; `None` where that is unknown."""
        if self.seconds <= self.seconds_least:
            return 0.0
        return self.seconds / self.seconds_least - 1 if self.seconds_least else None


def search(
    graph: Graph,
    effort: str = "best",
    first: Decisions | None = None,
    most_held: Most | None = None,
    targets: Targets | None = None,
) -> tuple[Decisions, Searched]:
    """Look for the fastest way to split the ops of a propagated program.

    Arguments:
        graph: The program.
        effort: How hard to look, one of `BUDGETS`.
        first: What is decided of it where each op is split as is cheapest for it by itself, if that is known; what
            users are told of it need not be.
        most_held: Bytes that a device may hold of a tensor, or of each; `most_to_hold` where it is not said.
        targets: What the program asks for, if that is known.

    Returns:
        What is decided by what was chosen, and what the search came to.

    Raises:
        ShardingError: what `decide` does.
    """
    targets, times = targets or Targets(graph), times_run(graph)
    decide = decider(graph, targets)
    first = decide(Given(is_told=False)) if first is None else first
    decided, hardware = Decided(Ops(graph, times), first), current_hardware()
    before = Total(decided, hardware).seconds
    held = most_to_hold(decided) if most_held is None else most_held
    budgets = [BUDGETS[one] for one in (*_BEFORE.get(effort, ()), effort)]

    chosen = choose(decided, decide, Best(first, before, 0.0, 0), held, budgets, targets)
    otherwise = _otherwise(first, chosen.decisions)
    least, alike = (min(one, chosen.seconds) for one in (chosen.bound, max(chosen.bound, chosen.alike)))
    found, holding = (chosen.seconds, before, least, chosen.rounds, alike), (chosen.held, held_by(decided))
    limit = held if isinstance(held, float | int) else max(held, default=0.0)
    return chosen.decisions, Searched(otherwise, *found, *holding, limit if math.isfinite(limit) else None)


def _otherwise(first: Decisions, other: Decisions) -> int:
    """How many ops are decided otherwise, whatever is told of them: most decisions are as those on other ops."""
    pairs = [(id(one), id(two)) for one, two in zip(first.ops, other.ops, strict=True)]
    different = dict(zip(pairs, zip(first.ops, other.ops, strict=True), strict=True))
    differ = {pair: _differ(*decisions) for pair, decisions in different.items()}
    return sum(map(differ.__getitem__, pairs))


def _differ(one: Decision | None, other: Decision | None) -> bool:
    if one is other:
        return False
    if not (isinstance(one, Computed) and isinstance(other, Computed)):
        return one != other
    return _told_nothing(one) != _told_nothing(other)


def _told_nothing(one: Computed) -> tuple[object, ...]:
    return one.operands, one.results, one.before, one.after
