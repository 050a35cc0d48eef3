"""Small collectives put together: one start instead of several.

    %2 = all_reduce{x} %0               →       %2, %3 = manual_computation (%0, %1) { all_reduce, all_reduce }
    %3 = all_reduce{x} %1

    %2 = reduce_scatter{x} %0                   %4 = manual_computation (%0, %1) { reduce_scatter (concatenate …) }
    %3 = reduce_scatter{x} %1           →       …
                                                %2, %3 = manual_computation (%4) { slice …, slice … }

Legal for all types and kinds of reduction that collectives do where the collectives are of one kind, along the same
axes and of one type of elements. None may be computed of what another one gives. Every element is combined as before,
with the same elements in the same groups, so it is `exact`. sdy has ops of one operand only, so the collective stands
in a manual computation, which other passes leave as it is; values partial by kinds that sdy has no words for stay as
they are.

All_reduces stand one after the other there, and start as one: XLA's combiner makes one of them, and copies nothing for
it, as seen on CPUs; GPUs and TPUs have it as well, up to a size of its own. (StableHLO's all_reduce takes several
operands; XLA's layouts refuse those in a program of partitions.) All_gathers, of rows, stand so too, and are one op of
several operands in the program of a device (`partition.localize.manual`); what is gathered along a dimension that is
not the first is put there behind it. A reduce_scatter has one operand: what each device gets is brought together in
rows, a row for each device of a group, and cut apart again. Beside all_reduces along the same axes it may be one of
them, of which each device keeps its part: twice the bytes, which of what is small take less than a start. (Compilers
that scatter whatever is reduced and sliced, as XLA's for GPUs, start it by itself again: as many bytes as before.)

What is put together starts when the last operand is there, and all of it is waited for at the first reader: combining
everything is one start, and nothing beside it. So buckets of several sizes are tried, and those taken with which the
block takes least time (`cost.overlap`), what is copied included, if it is less than before, and if no more is alive at
once than then and `ExplicitProgram.spare_bytes`.

Source: gradient buckets of PyTorch's DistributedDataParallel; XLA's `all_reduce_combiner`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from shardwright.cost.overlap import Queue, Work
from shardwright.cost.price import Cost
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import RETURNS
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.joining import (
    Kind,
    between,
    cost_beside,
    cut_apart,
    is_copied,
    kind_of,
    kind_of_whole,
    send_together,
)
from shardwright.optimize.manual import compute_before, replace
from shardwright.optimize.registry import optimization
from shardwright.optimize.schedules import Task, peak_bytes, seconds_of
from shardwright.optimize.scheduling import sizes_of, tasks_of
from shardwright.optimize.works import is_less
from shardwright.steps import AllReduce, ReduceScatter
from shardwright.words import bytes_text, counted

__all__ = ["bucketed"]

_NAME = "bucket-collectives"
_GROWTH = 4
"""How many times as much the next larger buckets hold that are tried."""

Buckets = list[list[int]]
"""Numbers of tasks, those that are put together in a list."""


@optimization(
    _NAME, "Puts small collectives together, where that hides no less.", on=RETURNS, is_late=True, is_manual=True
)
def bucketed(op: Op, program: ExplicitProgram) -> bool:
    """Put together collectives of one kind of the block that an op ends."""
    block = program.block_of(op)
    assert block is not None, "passes are given what may be changed"
    program.rewriter.write()
    ops = block.ops[:-1]
    alike = _alike(program, ops)
    if not alike:
        return False
    now = _now(program, ops, op.operands)
    found = [best for kind, members in alike.items() if (best := _best(program, now, kind, members)) is not None]
    if not found:
        return False
    _put_together(program, block, ops, max(found, key=attrgetter("seconds_saved")), op)
    return True


class _Now(NamedTuple):
    """A block as it is.

    Attributes:
        ops: Its ops, but for the last.
        tasks: The same as tasks.
        sizes: The bytes of the values that they make.
        returned: The values that the last op reads.
        held: The most bytes of values that are alive at once.
        seconds: What it takes.
    """

    ops: Sequence[Op]
    tasks: Sequence[Task]
    sizes: dict[int, int]
    returned: Sequence[int]
    held: int
    seconds: float


def _now(program: ExplicitProgram, ops: Sequence[Op], returned: Sequence[int]) -> _Now:
    tasks = tasks_of(program, ops)
    sizes = sizes_of(program, tasks)
    return _Now(ops, tasks, sizes, returned, peak_bytes(tasks, sizes, returned), seconds_of(tasks))


class _Bucketed(NamedTuple):
    """What comes of buckets.

    Attributes:
        kind: Of what kind they are.
        seconds_saved: The seconds that the block takes less.
        buckets: The buckets, of two or more each.
        order: The numbers of tasks in their new order, the last of a bucket standing for all of it (`_order`).
        largest: The bytes that a device sends in the largest.
    """

    kind: Kind
    seconds_saved: float
    buckets: Buckets
    order: list[int]
    largest: float


def _best(program: ExplicitProgram, now: _Now, kind: Kind, members: Sequence[int]) -> _Bucketed | None:
    """The buckets of collectives of a kind with which the block takes least time; `None` where not less than now."""
    ops, tasks, sizes = now.ops, now.tasks, now.sizes
    sent = {number: cost_beside(program, ops[number], kind).bytes_sent for number in members}
    most = now.held + max(0.0, program.spare_bytes)
    best: _Bucketed | None = None
    tried: list[Buckets] = []
    size = 2.0 * min(filter(None, sent.values()), default=math.inf)  # of tensors without elements nothing is sent
    while size < _GROWTH * sum(sent.values()):
        buckets = [bucket for bucket in _buckets(tasks, sent, size) if len(bucket) > 1]
        size *= _GROWTH
        if not buckets or buckets in tried:
            continue
        tried.append(buckets)
        parts = {place: task for bucket in buckets for place, task in _parts(program, now, kind, bucket).items()}
        held = {place: sum(sizes[made] for made in task.makes) for place, task in parts.items() if place < 0}
        order = [place for place in _order(tasks, buckets) if place >= 0 or place in parts]
        then = [parts[place] if place in parts else tasks[place] for place in order]
        seconds = seconds_of(then)
        if not is_less(seconds, now.seconds) or peak_bytes(then, sizes | held, now.returned) > most:
            continue
        if best is None or is_less(seconds, now.seconds - best.seconds_saved):
            largest = max(sum(sent[number] for number in bucket) for bucket in buckets)
            best = _Bucketed(kind, now.seconds - seconds, buckets, order, largest)
    return best


def _buckets(tasks: Sequence[Task], sent: dict[int, float], most: float) -> Buckets:
    """Buckets of so many bytes sent at most, of collectives of which none needs another of its bucket."""
    buckets: Buckets = [[]]
    behind: set[int] = set()
    total = 0.0
    for number, task in enumerate(tasks):
        needs_it = not behind.isdisjoint(task.needs)
        if number in sent:
            if needs_it or total + sent[number] > most:
                buckets.append([])
                behind.clear()
                total = 0.0
            buckets[-1].append(number)
            total += sent[number]
            needs_it = True
        if needs_it:
            behind.add(number)
    return buckets


def _order(tasks: Sequence[Task], buckets: Buckets) -> list[int]:
    """The places of tasks: each bucket is sent where its last one stood, and cut apart before what needs it first.

    Ops that need one of a bucket come behind that. `~number` is where the bucket is cut apart that `number` ends.
    """
    bucket_of = {number: bucket for bucket in buckets for number in bucket}
    order: list[int] = []
    missing: set[int] = set()
    uncut: dict[int, int] = {}
    late: list[int] = []

    def put(number: int) -> None:
        needs = [need for one in bucket_of.get(number, [number]) for need in tasks[one].needs]
        for end in dict.fromkeys(uncut[need] for need in needs if need in uncut):
            order.append(~end)
            for member in bucket_of[end]:
                uncut.pop(member)
        order.append(number)
        missing.discard(number)

    for number, task in enumerate(tasks):
        bucket = bucket_of.get(number)
        if bucket is None and missing.isdisjoint(task.needs):
            put(number)
            continue
        missing.add(number)
        if bucket is None:
            late.append(number)
        elif number == bucket[-1]:
            put(number)
            missing.difference_update(bucket)
            uncut.update(dict.fromkeys(bucket, number))
            waiting, late = late, []
            for one in waiting:
                if missing.isdisjoint(tasks[one].needs):
                    put(one)
                else:
                    late.append(one)
    return [*order, *[~end for end in dict.fromkeys(uncut.values())]]


def _parts(program: ExplicitProgram, now: _Now, kind: Kind, bucket: Sequence[int]) -> dict[int, Task]:
    """By their places, the tasks that do what those of a bucket do; `~number` is what lies between, where it does."""
    tasks, end, some = now.tasks, bucket[-1], [now.ops[number] for number in bucket]
    cost = sum([cost_beside(program, op, kind) for op in some], Cost())._replace(starts=1)
    reads = tuple(dict.fromkeys(value for number in bucket for value in tasks[number].reads))
    makes = tuple(value for number in bucket for value in tasks[number].makes)
    queue = tasks[end].works[0].queue
    if kind.step is AllReduce:
        return {end: Task((Work(program.seconds(cost), queue, reads, makes),), (), reads, makes)}
    copied = [is_copied(program, op) for op in some]
    copying = sum(_elements(program, op.operands[0]) for op, (first, _) in zip(some, copied, strict=True) if first)
    cutting = sum(_elements(program, op.results[0]) for op, (_, then) in zip(some, copied, strict=True) if then)
    before, behind = (Work(program.seconds(Cost(multiply_adds=count)), Queue.COMPUTE) for count in (copying, cutting))
    works = before._replace(reads=reads), Work(program.seconds(cost), queue, reads, (~end,))
    cut = behind._replace(reads=(~end,), makes=makes)
    return {end: Task(works, (), reads, (~end,)), ~end: Task((cut,), (), (~end,), makes)}


def _alike(program: ExplicitProgram, ops: Sequence[Op]) -> dict[Kind, list[int]]:
    """The numbers of collectives that can be put together, by kind; reduce_scatters beside all_reduces too."""
    found: dict[Kind, list[int]] = defaultdict(list)
    for number, op in enumerate(ops):
        kind = kind_of(program, op)
        if kind is not None:
            found[kind].append(number)
    for kind, members in [*found.items()]:
        if kind.step is ReduceScatter and (whole := kind_of_whole(kind)) in found:
            found[whole] = sorted([*found[whole], *members])
    return {kind: members for kind, members in found.items() if len(members) > 1}


def _put_together(program: ExplicitProgram, block: Block, ops: Sequence[Op], best: _Bucketed, end: Op) -> None:
    """Put the buckets into the program."""
    members, largest = sum(map(len, best.buckets)), bytes_text(best.largest)
    reason = f"{counted(members, 'collective')} start as {len(best.buckets)}, of up to {largest}"
    program.note(_NAME, ops[best.buckets[0][0]], reason, 0.0, best.seconds_saved * program.times(end))
    made: dict[int, Op] = {}
    graph = program.graph
    for bucket in best.buckets:
        some, last = [ops[number] for number in bucket], ops[bucket[-1]]
        operands, parts = [op.operands[0] for op in some], between(program, some, best.kind)
        results = [graph.new_value(graph.types[op.results[0]], graph.shardings[op.results[0]]) for op in some]
        sending, cutting = (one(program, some, best.kind) for one in (send_together, cut_apart))
        made[bucket[-1]] = compute_before(program, last, operands, parts or results, sending, reason)
        if parts:
            made[~bucket[-1]] = compute_before(program, last, parts, results, cutting, reason)
        for op, result in zip(some, results, strict=True):
            replace(program, op, [result], reason)
    program.reorder(block, [made[place] if place in made else ops[place] for place in best.order], reason)


def _elements(program: ExplicitProgram, value: int) -> int:
    layout = program.layout(value)
    return 0 if layout is None else math.prod(layout.local_shape(program.type(value).dims))
