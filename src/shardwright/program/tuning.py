"""Other shardings of arguments, one at a time, and what each would come to: all else stays as it was annotated.

Arguments that lie alike, are of one type and differ only in the numbers in their names, as those of all layers do, are
changed together. What a trial comes to is what the partitioner makes of it, each op split by itself; none
is guessed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from operator import ne
from typing import Any

from shardwright.axes import axes_size
from shardwright.clock import Clock
from shardwright.cost.outcome import Outcome
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.memo import memoize, uncollected
from shardwright.mesh import Mesh
from shardwright.program.program import Plan
from shardwright.program.trying import trying
from shardwright.sharding import TensorSharding
from shardwright.stage import TRIED_EFFORT
from shardwright.words import counted

__all__ = ["Trial", "Tuned", "alternatives", "trials_of", "tried", "tune"]

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Trial:
    """Another sharding of an argument, or of several that are alike.

    Attributes:
        arguments: Their names.
        before: How they lie in the plan that was given.
        after: How they lie in this one.
        given: The plan that was given.
        outcome: What it comes to.
        changed: How many tensors lie otherwise than in the plan that was given.
        is_afresh: Whether it was worked out from the beginning, as nobody knew what of it is as in that plan.
    """

    arguments: tuple[str, ...]
    before: TensorSharding
    after: TensorSharding
    given: Plan
    outcome: Outcome
    changed: int
    is_afresh: bool = False

    @property
    def plan(self) -> Plan:
        """The plan in which they lie so, made when it is asked for."""
        return self.given.with_arguments(dict.fromkeys(self.arguments, self.after))


@memoize
def alternatives(type: TensorType, mesh: Mesh) -> tuple[TensorSharding, ...]:
    """The shardings of a tensor that are worth a look: of each axis, and of two, over dimensions that they divide.

    >>> [repr(one) for one in alternatives(TensorType((8, 3), "f32"), Mesh(x=2, y=4))]
    ['[{}, {}]', '[{x}, {}]', '[{y}, {}]', '[{x, y}, {}]', '[{y, x}, {}]']
    """
    found: dict[TensorSharding, None] = {}
    places = range(type.rank)
    names = [name for name, size in mesh.axes if size > 1]
    for count in range(min(2, len(names)) + 1):
        for chosen in itertools.permutations(names, count):
            for dims in itertools.product(places, repeat=count):
                axes = [[name for name, dim in zip(chosen, dims, strict=True) if dim == place] for place in places]
                layout = TensorSharding.of(mesh, axes)
                if all(size % axes_size(over) == 0 for size, over in zip(type.dims, layout.axes, strict=True)):
                    found.setdefault(layout)
    return tuple(found)


def trials_of(plan: Plan, arguments: Iterable[str] | None = None) -> list[tuple[tuple[str, ...], TensorSharding]]:
    """What there is to try: names of arguments that are alike, and a sharding that they do not have.

    Arguments:
        plan: The plan.
        arguments: The beginnings of the names of those that are looked at; all where it is not said.

    Raises:
        ShardingError: no argument has a name that begins so.
    """
    types, layouts = plan.source.graph.arguments, plan.arguments
    chosen = _chosen(list(layouts), arguments)
    alike: dict[tuple[str, TensorType, TensorSharding], list[str]] = {}
    for name in chosen:
        type, layout = types[name], layouts[name]
        if type.rank and type.elements:
            alike.setdefault((_NUMBER.sub("*", name), type, layout.closed()), []).append(name)
    return [
        (tuple(names), other)
        for (_, type, layout), names in alike.items()
        for other in alternatives(type, plan.mesh)
        if other != layout
    ]


def _chosen(names: list[str], beginnings: Iterable[str] | None) -> list[str]:
    if beginnings is None:
        return names
    wanted = list(beginnings)
    for one in wanted:
        if not any(name.startswith(one) for name in names):
            raise ShardingError(
                f"no argument has a name that begins with {one!r}",
                cause=f"there are {counted(len(names), 'argument')}: {', '.join(names[:8])}{', …' * (len(names) > 8)}",
                remedy="give the beginning of one, such as a path",
            )
    return [name for name in names if any(name.startswith(one) for one in wanted)]


def tried(plan: Plan, arguments: tuple[str, ...], sharding: TensorSharding) -> Trial:
    """What another sharding of some arguments comes to.

    Raises:
        ShardingError: no such arguments, a sharding that does not fit them, or a program that cannot be split so.
    """
    way = trying(plan)
    known = None if way is None else way.tried(arguments, sharding)
    if known is not None:
        return Trial(arguments, known.before, sharding, plan, known.outcome, known.changed)
    other = plan.with_arguments(dict.fromkeys(arguments, sharding))
    outcome, changed = other.partition(effort=TRIED_EFFORT).outcome, _changed(plan.graph, other.graph)
    before = plan.arguments[arguments[0]].closed()
    return Trial(arguments, before, sharding, plan, outcome, changed, is_afresh=True)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was tried of a plan.

    Attributes:
        outcome: What the plan itself comes to.
        trials: What was tried, in order.
        refused: Why the program cannot be split so, for each trial where it cannot.
    """

    outcome: Outcome
    trials: tuple[Trial, ...]
    refused: tuple[ShardingError, ...]

    def best(self, top: int) -> tuple[Trial, ...]:
        """Those that take least time, of these those that hold least."""
        return tuple(sorted(self.trials, key=lambda one: (one.outcome.seconds, one.outcome.peak_bytes))[:top])

    def summary(self, top: int) -> dict[str, Any]:
        """The plan as it is and the best of what was tried as JSON values, seconds and bytes of each device."""
        best = [
            {
                "arguments": list(trial.arguments),
                "before": repr(trial.before),
                "after": repr(trial.after),
                "changed": trial.changed,
                **asdict(trial.outcome),
            }
            for trial in self.best(top)
        ]
        return {
            "now": asdict(self.outcome),
            "tried": len(self.trials),
            "refused": len(self.refused),
            "best": best,
        }


def tune(plan: Plan, arguments: Iterable[str] | None = None, watch: Callable[[str], None] | None = None) -> Tuned:
    """Try other shardings of arguments, one at a time; what `tune(plan).best(10)` has takes least time by the price.

    Arguments:
        plan: The plan.
        arguments: The beginnings of the names of those that are looked at; all where it is not said. Those of layers,
            which differ in numbers only, are changed together.
        watch: Hears how far it is.

    Raises:
        ShardingError: no argument has a name that begins so, or this plan itself cannot be partitioned.
    """
    quiet = replace(plan, clock=Clock())
    before, todo = _outcome(quiet), trials_of(quiet, arguments)
    try_all = _tried_all if trying(quiet) is None else uncollected(_tried_all)  # what goes on from others is all kept
    found, refused = try_all(quiet, todo, watch)
    return Tuned(before, tuple(found), tuple(refused))


def _tried_all(
    plan: Plan, todo: list[tuple[tuple[str, ...], TensorSharding]], watch: Callable[[str], None] | None
) -> tuple[list[Trial], list[ShardingError]]:
    """What each comes to that can be split so, and why others cannot."""
    found: list[Trial] = []
    refused: list[ShardingError] = []
    for number, (names, sharding) in enumerate(todo, 1):
        if watch is not None:
            watch(f"trial {number} of {len(todo)}")
        try:
            found.append(tried(plan, names, sharding))
        except ShardingError as error:
            refused.append(error)
    return found, refused


def _outcome(plan: Plan) -> Outcome:
    """What a plan comes to."""
    way = trying(plan)
    known = None if way is None else way.outcome(way.graph)
    return plan.partition(effort=TRIED_EFFORT).outcome if known is None else known


def _changed(one: Graph, other: Graph) -> int:
    """How many tensors lie otherwise in two graphs of one program."""
    return sum(map(ne, one.shardings, other.shardings))
