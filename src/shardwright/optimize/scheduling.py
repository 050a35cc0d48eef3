"""Ops in another order: collectives start as early as their operands are there, and are waited for as late as may be.

    %1 = dot %a, %b                           %1 = dot %a, %b
    %2 = all_gather %w                        %2 = all_gather %w
    %3 = dot %1, %2                     →     %4 = dot %1, %1            beside the gather
    %4 = dot %1, %1                           %3 = dot %1, %2

Legal for all kinds and types: each op computes the same of the same operands, wherever it stands behind what it reads.
Tokens are values like others; ops that do something else than compute their results, and those of which nobody knows
(custom calls, barriers), stay in their order among one another, also where regions hold them. Every device runs the
same text, so devices start collectives in the same order. No sum is added up in another order, so it is `exact`.

It is done where the block takes less time by `cost.overlap`, and where the program then holds no more at its peak
(`analysis.memory`) than before and what `ExplicitProgram.spare_bytes` leaves: up to the option `memory`, or what the
hardware has; and by the option `orders` more than before.

What XLA keeps of it: it has to keep the order of values, tokens and effects, and nothing else. Its schedulers make
orders of their own from the data: that of GPUs takes one of three by memory and brings starts forward and ends back, or
hides latency where `xla_gpu_enable_latency_hiding_scheduler` says so, and TPUs always do; of the text they keep what
they leave open. What runs a program as it stands keeps all of it, and other passes price what runs beside what by it.

Source: XLA, `hlo_memory_scheduler` and `gpu_hlo_schedule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from shardwright.analysis.traffic import KINDS
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import RETURNS
from shardwright.optimize.explicit import ExplicitProgram, is_pure
from shardwright.optimize.registry import optimization
from shardwright.optimize.schedules import Listed, Priorities, by_critical_path, by_text, listed
from shardwright.optimize.tasks import Task, Tasks
from shardwright.optimize.works import is_collective, is_less, works_of
from shardwright.rules.traits import facts_of, is_scalar_expansion
from shardwright.words import counted

__all__ = ["scheduled", "tasks_of"]

_NAME = "schedule-collectives"
_SHARES = (1 / 2, 1 / 4, 1 / 8, 0.0)
"""Of the bytes that an order holds beyond what is held now, how many others may: hardly any needs them all."""

_DEVICES = frozenset(f"stablehlo.{kind}" for kind in KINDS)


@optimization(
    _NAME, "Starts collectives early and waits for them late, beside what can be computed.", on=RETURNS, is_late=True
)
def scheduled(op: Op, program: ExplicitProgram) -> bool:
    """Put the ops of the block that an op ends in an order that takes less time."""
    block = program.block_of(op)
    assert block is not None, "passes are given what may be changed"
    tasks = tasks_of(program, block)
    if not any(tasks.is_collective):
        return False
    before, held = block.ops[:-1], None
    more = max(0.0, min(program.spare_bytes, program.order_bytes))
    for order, seconds, _ in _better_orders(tasks, more):
        held = program.held() if held is None else held
        program.reorder(block, [before[number] for number in order], "it hides communication")
        grown = max(0, program.held() - held)
        if grown <= more:
            program.spare_bytes -= grown
            program.order_bytes -= grown
            reason = f"more runs beside {counted(_apart(tasks.tasks, order), 'collective')}"
            program.note(_NAME, op, reason, 0.0, (tasks.seconds - seconds) * program.times(op))
            return True
        program.reorder(block, before, "it would hold too much")
    return False


def _better_orders(tasks: Tasks, more: float) -> Iterator[Listed]:
    """Orders that take less time than now: the best first, of those as good what holds least; none holds more bytes
    beyond what is held now than there may be. Each is looked for once the one before it would not do.
    """
    ways = by_text(tasks.tasks), by_critical_path(tasks.tasks)
    found: Listed | None = None
    known: Sequence[Listed | None] = [None] * len(ways)
    for share in (1.0, *_SHARES):
        most = tasks.held + share * more
        known = every = [_within(tasks, way, most, before) for way, before in zip(ways, known, strict=True)]
        best = min(filter(None, every), key=attrgetter("seconds"), default=None)
        if best is None or not is_less(best.seconds, tasks.seconds):
            break  # nor is any that holds less
        if share == 1.0:
            more = max(0.0, best.held - tasks.held)
        if found is not None and is_less(found.seconds, best.seconds):
            yield found
        found = best
    if found is not None:
        yield found


def _within(tasks: Tasks, priorities: Priorities, most: float, known: Listed | None) -> Listed | None:
    """The order that holds so much at most; the one that is known, for more, where that does not hold more anyway.

    There is none where it would take no less than now.
    """
    return known if known is not None and known.held <= most else listed(tasks, priorities, most, tasks.seconds)


def tasks_of(program: ExplicitProgram, block: Block) -> Tasks:
    """The ops of a block, but for the last, as what is to be put in an order: made anew once anything has changed."""
    changes = len(program.rewriter.changes)
    known = program.tasks.get(block)
    if known is None or known[0] != changes:
        program.rewriter.write()
        *ops, end = block.ops
        tasks = _tasks_of(program, ops)
        sizes = {
            value: 0 if _is_nowhere(op) else program.local_bytes(value)
            for op, task in zip(ops, tasks, strict=True)
            for value in task.makes
        }
        known = program.tasks[block] = changes, Tasks(tasks, sizes, end.operands)
    return known[1]


def _tasks_of(program: ExplicitProgram, ops: Sequence[Op]) -> list[Task]:
    tasks: list[Task] = []
    makers: dict[int, int] = {}
    last_in_order: int | None = None
    every = program.alone
    for number, op in enumerate(ops):
        known = every.get(op)
        if known is None or known[0] is not op.operands:
            known = _alone(program, op)
        _, (works, _, reads, makes, is_lazy), keeps_order = known
        needs = dict.fromkeys([makers[value] for value in reads if value in makers])
        if keeps_order:
            if last_in_order is not None:
                needs[last_in_order] = None
            last_in_order = number
        # Of what hardly takes time nothing is gained early, and what it makes is held: what starts as soon as a block
        # does, as `0.9 * m` of a moment that is an argument, is held beside all that comes before it is read.
        is_lazy = is_lazy and all(tasks[need].is_lazy and _is_nowhere(ops[need]) for need in needs)
        tasks.append(Task(works, tuple(needs), reads, makes, is_lazy))
        for value in makes:
            makers[value] = number
    return tasks


def _alone(program: ExplicitProgram, op: Op) -> tuple[tuple[int, ...], Task, bool]:
    """What an op reads, it as a task that needs nothing, and whether it keeps its order; known as its works are."""
    task = Task(works_of(program, op), (), tuple(dict.fromkeys(op.reads())), op.results, _is_lazy(op))
    found = op.operands, task, _keeps_its_order(op)
    if op in program.works:
        program.alone[op] = found
    return found


def _keeps_its_order(op: Op) -> bool:
    """Whether an op does something else than compute its results, or one that it holds does."""
    if op.regions:
        return any(
            _keeps_its_order(inner) for region in op.regions for inner in region.ops if inner.name not in RETURNS
        )
    return not is_pure(op) and op.name not in _DEVICES


def _is_lazy(op: Op) -> bool:
    """Whether an op is to stand before its first reader where what it needs is there from the start.

    Elementwise ops hide nothing; but one that makes less than it reads is early where what it reads is free then.
    """
    if _is_nowhere(op):
        return True
    if not facts_of(op.name).elementwise or not is_pure(op):
        return False
    signature = op.signature
    return sum(type.bytes for type in signature.results) >= max((type.bytes for type in signature.operands), default=0)


def _is_nowhere(op: Op) -> bool:
    """Whether any device computes what an op makes where it is read."""
    return facts_of(op.name).constant or is_scalar_expansion(op.signature)


def _apart(tasks: Sequence[Task], order: Sequence[int]) -> int:
    """How many collectives have more between them and their first readers than they had."""
    return sum(
        later > now for now, later in zip(_distances(tasks, range(len(tasks))), _distances(tasks, order), strict=True)
    )


def _distances(tasks: Sequence[Task], order: Sequence[int]) -> list[float]:
    """Of each collective, in their order, the seconds of other ops between it and its first reader."""
    made: dict[int, tuple[int, float]] = {}
    found: dict[int, float] = {number: 0.0 for number, task in enumerate(tasks) if is_collective(task.works)}
    passed = 0.0
    for number in order:
        for value in tasks[number].reads:
            if value in made:
                maker, when = made.pop(value)
                found[maker] = passed - when
        if number in found:
            made.update(dict.fromkeys(tasks[number].makes, (number, passed)))
        else:
            passed += sum(work.seconds for work in tasks[number].works)
    return list(found.values())
