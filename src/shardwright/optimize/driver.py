"""Passes over an explicit program, applied until none of them finds anything to make better.

Those that ask what runs beside what come behind all others: what there is to run is known then. Some of the others
save bytes or a start, and leave less for these to put together; so a program that such a pass has changed is made
without it as well, and the faster one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from shardwright.ir.copying import Copier
from shardwright.ir.graph import Graph, Op
from shardwright.ir.rewrite.patterns import Pattern, apply_patterns
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.memo import uncollected
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.improvement import Improvement
from shardwright.optimize.registry import Optimization, optimization_named, optimizations
from shardwright.optimize.works import block_seconds, is_less
from shardwright.partition.check import check

__all__ = ["Optimized", "optimize"]


@dataclass(frozen=True, slots=True)
class Optimized:
    """An explicit program that was made better, and how."""

    graph: Graph
    improvements: tuple[Improvement, ...]


@uncollected
def optimize(
    graph: Graph,
    names: Iterable[str] | None = None,
    *,
    exact: bool = False,
    memory: int | None = None,
    manual: bool = True,
) -> Optimized:
    """Make the collectives of an explicit program fewer, smaller and later. The graph given is left as it is.

    Arguments:
        graph: An explicit program, of our partitioner or of anybody's.
        names: Passes by name, those preferred first; all where none are named.
        exact: Whether sums of floating-point numbers keep their order.
        memory: The bytes that a device may hold at most for what is made earlier than it was, brought out of loops for
            one; those of the session's hardware where it is not said.
        manual: Whether there may be manual computations in it that were not there before.

    Raises:
        ShardingError: no such pass, or a program that is not explicit.
    """
    named = optimizations() if names is None else tuple(map(optimization_named, names))
    passes = [one for one in named if manual or not one.is_manual]
    check(graph)
    found, seconds = _optimized(graph, passes, exact, memory)
    for one in [one for one in passes if one.is_weighed]:
        others = [other for other in passes if other is not one]
        if any(other.is_late for other in others) and any(change.by == one.name for change in found.improvements):
            other, less = _optimized(graph, others, exact, memory)
            if is_less(less, seconds):
                found, seconds, passes = other, less, others
    return found


def _optimized(
    graph: Graph, passes: Sequence[Optimization], exact: bool, memory: int | None
) -> tuple[Optimized, float]:
    """What passes make of a program, and the seconds that it takes then."""
    made = Copier(graph).run()
    program = ExplicitProgram(made, exact, memory)
    with program.rewriter as rewriter:
        for late in (False, True):
            chosen = [one for one in passes if one.is_late == late]
            apply_patterns(rewriter, [Pattern(one.on, _rewriting(one, program)) for one in chosen])
    check(made)
    return Optimized(made, tuple(program.improvements)), block_seconds(program, made.main.block.ops)


def _rewriting(one: Optimization, program: ExplicitProgram) -> Callable[[Op, Rewriter], bool]:
    """A pass as a pattern, which leaves alone what stands in bodies of manual computations."""

    def rewrite(op: Op, rewriter: Rewriter) -> bool:
        return program.block_of(op) is not None and one.improve(op, program)

    return rewrite
