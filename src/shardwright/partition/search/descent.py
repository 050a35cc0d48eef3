"""The descent: one kind of situation after the other is split otherwise, which is kept where the program gains by it.

What an op is split like decides how its result lies, so that ops behind it are decided anew, each as is cheapest for it
then; what counts is what all of the program takes in the end. So no program comes out slower, by the price, than with
every op decided by itself. That no other program is faster is not said: it would differ in more places.

An op whose operands lie otherwise than before may well bring them back where they were, and nothing is won. So every
change is tried a second time, with ops behind it split as their operands lie then.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.partition.decide import decider
from shardwright.partition.op_split import Situation, Split
from shardwright.partition.search.situations import Exceptions, Following, as_it_lies, cheapest, is_alike
from shardwright.partition.search.total import times_run, total_seconds

__all__ = ["Descended", "descend"]

_WAYS = 8
"""Ways that are tried in each situation, the cheapest for the op by itself."""

_MOST_OPS = 1 << 18
"""Ops that are decided for trials, all trials together: what bounds the search of large programs."""

_GAIN = 1e-9
"""A part of the program's time, below which it is rounding."""


class _Phase(NamedTuple):
    """What is tried.

    Attributes:
        changes: How many together, where fewer gain nothing.
        follows: Whether each is tried with ops behind it split as their operands lie, too.
    """

    changes: int
    follows: bool


_PHASES = _Phase(1, False), _Phase(1, True), _Phase(2, True)
"""In this order, each where the ones before it gain nothing more."""


class Descended(NamedTuple):
    """What the descent came to.

    Attributes:
        exceptions: What is split otherwise in the fastest program found.
        seconds: What that takes by the price, each device, nothing of it at the same time.
        trials: Programs that were tried.
        is_whole: Whether it came to its end: neither one nor two changes, to ways that are among the cheapest where
            they are made, make the program faster.
    """

    exceptions: Exceptions
    seconds: float
    trials: int
    is_whole: bool


class _Trial(NamedTuple):
    """A program as decided with some exceptions: what it takes, and in which situations its ops were."""

    exceptions: Exceptions
    seconds: float
    met: dict[Situation, Split]

    def new(self, base: _Trial) -> Iterator[Situation]:
        """The situations that no op of `base` was in."""
        return (situation for situation in self.met if situation not in base.met)


def descend(graph: Graph) -> Descended:
    """Look for a faster program than the one of which each op is split as is cheapest for it by itself.

    Raises:
        ShardingError: what `decide` does.
    """
    return _Search(graph).run()


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.hardware = current_hardware()
        self.decide = decider(graph)
        self.times = times_run(graph)
        self.most_trials = max(1, _MOST_OPS // max(1, len(self.times)))
        self.trials = 0

    def run(self) -> Descended:
        best, phase = self.trial(Following({})), 0
        while phase < len(_PHASES) and not self.is_over:
            better = self.swept(best, _PHASES[phase])
            phase, best = (phase + 1, best) if better is best else (0, better)
        return Descended(best.exceptions, best.seconds, self.trials, not self.is_over)

    @property
    def is_over(self) -> bool:
        """Whether as many programs were tried as are to be."""
        return self.trials >= self.most_trials

    def swept(self, best: _Trial, phase: _Phase) -> _Trial:
        """The best program after a look at every situation of this one."""
        for situation in self.ordered(best):
            best = self.improved(best, best, situation, phase)
        return best

    def trial(self, following: Following) -> _Trial:
        decisions = self.decide(following)
        seconds = total_seconds(self.graph, decisions, self.times, self.hardware)
        return _Trial(following.exceptions, seconds, following.met)

    def ordered(self, trial: _Trial) -> list[Situation]:
        """First those that something is sent in, most first: what changes there or before it is likely to matter."""

        def sent(situation: Situation) -> float:
            choice = trial.met[situation].choice
            return price(choice.own, self.hardware) - choice.price(self.hardware)

        return sorted(trial.met, key=sent)

    def improved(self, best: _Trial, base: _Trial, situation: Situation, phase: _Phase) -> _Trial:
        """The best of the programs that are `base` but for what is in a situation, and of the best one so far."""
        for choice in cheapest(situation, _WAYS) if situation in base.met else ():
            if self.is_over:
                break
            if is_alike(choice, base.met[situation].choice):
                continue
            exceptions = {**base.exceptions, situation: choice}
            trial = self.tried(Following(exceptions))
            best = self.deeper(best, base, trial, phase)
            if phase.follows and not (trial and all(map(_is_split_as_it_lies, trial.new(base), repeat(trial)))):
                best = self.deeper(best, base, self.tried(Following(exceptions, base.met, _WAYS)), phase)
        return best

    def deeper(self, best: _Trial, base: _Trial, trial: _Trial | None, phase: _Phase) -> _Trial:
        """The best program so far, where `trial`, which differs from `base`, was made: that, if it is faster; else the
        best of those with more changes, the next one of the first op that is in another situation there.
        """
        if trial is None:
            return best
        if trial.seconds < best.seconds * (1 - _GAIN):
            return trial
        after = next(trial.new(base), None) if phase.changes > 1 else None
        return best if after is None else self.improved(best, trial, after, phase._replace(changes=phase.changes - 1))

    def tried(self, following: Following) -> _Trial | None:
        """A program, if there is one: ops behind a change may not take what they would get."""
        self.trials += 1
        try:
            return self.trial(following)
        except ShardingError:
            return None


def _is_split_as_it_lies(situation: Situation, trial: _Trial) -> bool:
    """Whether an op is split as its operands lie, or cannot be."""
    choice = as_it_lies(situation, _WAYS)
    return choice is None or is_alike(choice, trial.met[situation].choice)
