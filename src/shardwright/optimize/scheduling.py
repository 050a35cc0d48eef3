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
hardware has.

What XLA keeps of it: it has to keep the order of values, tokens and effects, and nothing else. Its schedulers make
orders of their own from the data: that of GPUs takes one of three by memory and brings starts forward and ends back, or
hides latency where `xla_gpu_enable_latency_hiding_scheduler` says so, and TPUs always do; of the text they keep what
they leave open. What runs a program as it stands keeps all of it, and other passes price what runs beside what by it.

Source: XLA, `hlo_memory_scheduler` and `gpu_hlo_schedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from shardwright.analysis.traffic import KINDS
from shardwright.ir.graph import Op
from shardwright.ir.ops import RETURNS
from shardwright.optimize.explicit import ExplicitProgram, is_pure
from shardwright.optimize.registry import optimization
from shardwright.optimize.schedules import (
    Listed,
    Orders,
    Priorities,
    Task,
    by_critical_path,
    by_text,
    peak_bytes,
    seconds_of,
)
from shardwright.optimize.works import is_collective, is_less, works_of
from shardwright.rules.traits import facts_of, is_scalar_expansion
from shardwright.words import counted

__all__ = ["scheduled", "sizes_of", "tasks_of"]

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
    program.rewriter.write()
    before = block.ops[:-1]
    tasks = tasks_of(program, before)
    if not any(is_collective(task.works) for task in tasks):
        return False
    now, held = seconds_of(tasks), None
    for order, seconds, _ in _better_orders(program, tasks, op.operands, now):
        held = program.memory_use().peak if held is None else held
        program.reorder(block, [before[number] for number in order], "it hides communication")
        grown = max(0, program.memory_use().peak - held)
        if grown <= max(0.0, program.spare_bytes):
            program.spare_bytes -= grown
            reason = f"more runs beside {counted(_apart(tasks, order), 'collective')}"
            program.note(_NAME, op, reason, 0.0, (now - seconds) * program.times(op))
            return True
        program.reorder(block, before, "it would hold too much")
    return False


def _better_orders(
    program: ExplicitProgram, tasks: Sequence[Task], returned: Sequence[int], now: float
) -> list[Listed]:
    """Orders that take less than `now`: the best first, of those as good what holds least."""
    sizes = sizes_of(program, tasks)
    held = peak_bytes(tasks, sizes, returned)
    orders = Orders(tasks, sizes, returned)
    ways = by_text(tasks), by_critical_path(tasks)
    more = max(0.0, program.spare_bytes)
    found: list[Listed] = []
    known: Sequence[Listed | None] = [None] * len(ways)
    for share in (1.0, *_SHARES):
        most = held + share * more
        known = listed = [_within(orders, way, most, before) for way, before in zip(ways, known, strict=True)]
        best = min(listed, key=attrgetter("seconds"))
        if not is_less(best.seconds, now):
            break  # nor is any that holds less
        if share == 1.0:
            more = max(0.0, best.held - held)
        if found and not is_less(found[-1].seconds, best.seconds):
            found.pop()
        found.append(best)
    return found


def _within(orders: Orders, priorities: Priorities, most: float, known: Listed | None) -> Listed:
    """The order that holds so much at most; the one that is known, for more, where that does not hold more anyway."""
    return known if known is not None and known.held <= most else orders.listed(priorities, most)


def sizes_of(program: ExplicitProgram, tasks: Sequence[Task]) -> dict[int, int]:
    """The bytes of what tasks make, on each device; of what is computed where it is read none."""
    return {value: 0 if task.is_lazy else program.local_bytes(value) for task in tasks for value in task.makes}


def tasks_of(program: ExplicitProgram, ops: Sequence[Op]) -> list[Task]:
    """Ops of a block as what is to be put in an order."""
    tasks: list[Task] = []
    makers: dict[int, int] = {}
    last_in_order: int | None = None
    for number, op in enumerate(ops):
        reads = tuple(dict.fromkeys(op.reads()))
        needs = dict.fromkeys(makers[value] for value in reads if value in makers)
        if _keeps_its_order(op):
            if last_in_order is not None:
                needs[last_in_order] = None
            last_in_order = number
        is_lazy = _is_lazy(op) and all(tasks[need].is_lazy for need in needs)
        tasks.append(Task(works_of(program, op), tuple(needs), reads, op.results, is_lazy))
        makers.update(dict.fromkeys(op.results, number))
    return tasks


def _keeps_its_order(op: Op) -> bool:
    """Whether an op does something else than compute its results, or one that it holds does."""
    if op.regions:
        return any(
            _keeps_its_order(inner) for region in op.regions for inner in region.ops if inner.name not in RETURNS
        )
    return not is_pure(op) and op.name not in _DEVICES


def _is_lazy(op: Op) -> bool:
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
