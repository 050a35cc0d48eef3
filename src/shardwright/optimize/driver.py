"""Passes over an explicit program, applied until none of them finds anything to make better.

Those that ask what runs beside what come behind all others: what there is to run is known then. Some of the others
save bytes or a start, and leave less for these to put together; so a program that such a pass has changed is made
without it as well, and the faster one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shardwright.ir.copying import Copier
from shardwright.ir.graph import Graph, Op
from shardwright.ir.rewrite.patterns import Pattern, apply_patterns
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.memo import uncollected
from shardwright.optimize.explicit import ExplicitProgram, Room
from shardwright.optimize.improvement import Improvement
from shardwright.optimize.registry import Optimization, optimization_named, optimizations
from shardwright.optimize.works import block_seconds, is_less
from shardwright.partition.check import check

__all__ = ["Optimized", "optimize"]


@dataclass(frozen=True, slots=True)
class Optimized:
    """An explicit program that was made better, and how.

    Attributes:
        graph: The program.
        improvements: What was done.
        seconds: What it takes on the hardware of the session, collectives beside what computes.
    """

    graph: Graph
    improvements: tuple[Improvement, ...]
    seconds: float


@uncollected
def optimize(
    graph: Graph,
    names: Iterable[str] | None = None,
    *,
    exact: bool = False,
    memory: int | None = None,
    orders: int | None = None,
    manual: bool = True,
) -> Optimized:
    """Make the collectives of an explicit program fewer, smaller and later. The graph given is left as it is.

    Arguments:
        graph: An explicit program, of our partitioner or of anybody's.
        names: Passes by name, those preferred first; all where none are named.
        exact: Whether sums of floating-point numbers keep their order.
        memory: The bytes that a device may hold at most for what is made earlier than it was, brought out of loops for
            one; those of the session's hardware where it is not said.
        orders: The bytes by which other orders of its ops may hold more than the one that it has, at most; as far as
            memory allows where it is not said.
        manual: Whether there may be manual computations in it that were not there before.

    Raises:
        ShardingError: no such pass, or a program that is not explicit.
    """
    named = optimizations() if names is None else tuple(map(optimization_named, names))
    passes = [one for one in named if manual or not one.is_manual]
    check(graph)
    room = Room(memory, orders)
    found = _optimized(_Begun(graph), passes, exact, room)
    for one in [one for one in passes if one.is_weighed]:
        others = [other for other in passes if other is not one]
        if any(other.is_late for other in others) and any(change.by == one.name for change in found.improvements):
            other = _optimized(found.begun.get(one.name, _Begun(graph, like=found.program)), others, exact, room)
            if is_less(other.seconds, found.seconds):
                found, passes = other, others
    check(found.graph)
    return Optimized(found.graph, found.improvements, found.seconds)


class _Begun(NamedTuple):
    """A program that passes go on with.

    Attributes:
        graph: The program, which is left as it is.
        improvements: What has been made better already.
        waiting: The ops that late passes are to look at, by their place in the program, the last first; `None` where
            other passes come before them.
        spare_bytes: What may still be held (`ExplicitProgram.spare_bytes`), where that has been asked.
        order_bytes: And by orders (`ExplicitProgram.order_bytes`), where that was said.
        like: What others made of it knows what things cost.
    """

    graph: Graph
    improvements: tuple[Improvement, ...] = ()
    waiting: tuple[int, ...] | None = None
    spare_bytes: float | None = None
    order_bytes: float | None = None
    like: ExplicitProgram | None = None


class _Made(NamedTuple):
    """What passes make of a program.

    Attributes:
        graph: The program.
        improvements: How.
        seconds: What it takes then.
        begun: For late passes that are weighed, by name, the program before they were first tried.
        program: What knows what things cost.
    """

    graph: Graph
    improvements: tuple[Improvement, ...]
    seconds: float
    begun: dict[str, _Begun]
    program: ExplicitProgram


def _optimized(begun: _Begun, passes: Sequence[Optimization], exact: bool, room: Room) -> _Made:
    """What passes make of a program."""
    made = Copier(begun.graph).run()
    program, before = ExplicitProgram(made, exact, room, begun.like), dict[str, _Begun]()
    program.improvements += begun.improvements
    if begun.spare_bytes is not None:
        program.spare_bytes = begun.spare_bytes
    if begun.order_bytes is not None:
        program.order_bytes = begun.order_bytes
    with program.rewriter as rewriter:
        if begun.waiting is None:
            apply_patterns(rewriter, [Pattern(one.on, _rewriting(one, program)) for one in passes if not one.is_late])
        rewriter.write()
        ops = made.main.block.walk()
        late = [one for one in passes if one.is_late]
        names = {name for one in late for name in one.on}
        numbers = [n for n, op in enumerate(ops) if op.name in names] if begun.waiting is None else begun.waiting
        waiting = dict.fromkeys([ops[number] for number in numbers])
        patterns = [Pattern(one.on, _rewriting(one, program, waiting, before)) for one in late]
        apply_patterns(rewriter, patterns, waiting=waiting)
    return _Made(made, tuple(program.improvements), block_seconds(program, made.main.block.ops), before, program)


def _rewriting(
    one: Optimization,
    program: ExplicitProgram,
    waiting: dict[Op, None] | None = None,
    before: dict[str, _Begun] | None = None,
) -> Callable[[Op, Rewriter], bool]:
    """A pass as a pattern, which leaves alone what stands in bodies of manual computations.

    Where `before` is given, and the pass is weighed, the program is put there before it is first tried.
    """

    def rewrite(op: Op, rewriter: Rewriter) -> bool:
        if program.block_of(op) is None:
            return False
        if one.is_weighed and waiting is not None and before is not None and one.name not in before:
            before[one.name] = _begun(program, [*waiting, op])
        return one.improve(op, program)

    return rewrite


def _begun(program: ExplicitProgram, waiting: Sequence[Op]) -> _Begun:
    """A program as it is."""
    program.rewriter.write()
    places = {op: place for place, op in enumerate(program.graph.main.block.walk())}
    spare = vars(program).get("spare_bytes")
    graph = Copier(program.graph).run()
    numbers = tuple([places[op] for op in waiting])
    return _Begun(graph, tuple(program.improvements), numbers, spare, program.order_bytes, program)
