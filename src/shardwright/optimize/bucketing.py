"""Small collectives put together: one start instead of several.

    %2 = all_reduce{x} %0               →       %2, %3 = manual_computation (%0, %1) { all_reduce, all_reduce }
    %3 = all_reduce{x} %1

    %2 = reduce_scatter{x} %0                   %4 = manual_computation (%0, %1) { reduce_scatter (concatenate …) }
    %3 = reduce_scatter{x} %1           →       …
                                                %2, %3 = manual_computation (%4) { slice …, slice … }

Legal for all types and kinds of reduction that collectives do where the collectives are of one kind, along the same
axes and, where they reduce, of one type of elements. None may be computed of what another one gives. Every element is
combined as before, with the same elements in the same groups, so it is `exact`. sdy has ops of one operand only, so the
collective stands in a manual computation, which other passes leave as it is; values partial by kinds that sdy has no
words for stay as they are.

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
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from shardwright.cost.overlap import Queue, Work, beats_seconds
from shardwright.cost.price import Cost
from shardwright.cost.roofline import roofline_seconds
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
from shardwright.optimize.scheduling import tasks_of
from shardwright.optimize.tasks import Task, Tasks, hold_of, most_bytes
from shardwright.optimize.works import is_less
from shardwright.partition.localize.local import local_type
from shardwright.steps import AllReduce, ReduceScatter
from shardwright.words import bytes_text, counted

__all__ = ["bucketed"]

T = TypeVar("T")

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
    tasks = tasks_of(program, block)
    ops = block.ops[:-1]
    alike = _alike(program, ops)
    if not alike:
        return False
    leading = tasks.leading({number for members in alike.values() for number in members})
    now = _Now(ops, tasks, leading)
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
        leading: Which collectives lead to each (`Tasks.leading`).
    """

    ops: Sequence[Op]
    tasks: Tasks
    leading: Sequence[int]


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
    tasks, seconds_now = now.tasks, now.tasks.seconds
    sent = {number: cost_beside(program, now.ops[number], kind).bytes_sent for number in members}
    most = tasks.held + max(0.0, program.spare_bytes)
    best: _Bucketed | None = None
    tried: list[Buckets] = []
    size = 2.0 * min(filter(None, sent.values()), default=math.inf)  # of tensors without elements nothing is sent
    while size < _GROWTH * sum(sent.values()):
        buckets = [bucket for bucket in _buckets(now.leading, sent, size) if len(bucket) > 1]
        size *= _GROWTH
        if not buckets or buckets in tried:
            continue
        tried.append(buckets)
        parts = {place: task for bucket in buckets for place, task in _parts(program, now, kind, bucket).items()}
        order = _order(tasks, now.leading, buckets, cuts=any(place < 0 for place in parts))
        seconds = _seconds(tasks, order, parts)
        least = seconds_now if best is None else seconds_now - best.seconds_saved
        if is_less(seconds, seconds_now) and is_less(seconds, least) and _held(tasks, order, parts, buckets) <= most:
            largest = max(sum(sent[number] for number in bucket) for bucket in buckets)
            best = _Bucketed(kind, seconds_now - seconds, buckets, order, largest)
    return best


def _seconds(tasks: Tasks, order: Sequence[int], parts: Mapping[int, Task]) -> float:
    """The seconds that tasks take in an order, some others in place of them."""
    return beats_seconds(_in_order(order, tasks.beats, {place: part.works for place, part in parts.items()}))


def _in_order(order: Sequence[int], every: Sequence[T], others: Mapping[int, T]) -> Iterator[T]:
    """What there is of each place, others than of every task of some."""
    found = [*every, *every]  # places below 0 are found from the end
    for place, other in others.items():
        found[place] = other
    return map(found.__getitem__, order)


def _held(tasks: Tasks, order: Sequence[int], parts: Mapping[int, Task], buckets: Buckets) -> int:
    """The most bytes that are alive at once then."""
    between = {place: sum([tasks.sizes[value] for value in part.makes]) for place, part in parts.items() if place < 0}
    sizes = {**tasks.sizes, **between}
    readers = tasks.readers | {place: 0 for place, size in between.items() if size}
    replaced = [(tasks.tasks[number], -1) for bucket in buckets for number in bucket]
    for task, count in (*replaced, *[(part, 1) for part in parts.values()]):
        for value in task.reads:
            if value in readers:
                readers[value] += count
    others = {place: hold_of(part, sizes, readers) for place, part in parts.items()}
    return most_bytes(_in_order(order, tasks.holds, others), readers, sizes)


def _buckets(leading: Sequence[int], sent: Mapping[int, float], most: float) -> Buckets:
    """Buckets of so many bytes sent at most, of collectives of which none needs another of its bucket.

    Arguments:
        leading: Which collectives lead to each task, itself included (`Tasks.leading`); of each another bit is set.
        sent: What each collective sends, those that stand first first.
        most: The bytes.
    """
    buckets: Buckets = [[]]
    inside, total = 0, 0.0
    for number, bytes in sent.items():
        if inside & leading[number] or total + bytes > most:
            buckets.append([])
            inside, total = 0, 0.0
        buckets[-1].append(number)
        inside |= _own(leading, number)
        total += bytes
    return buckets


def _order(tasks: Tasks, leading: Sequence[int], buckets: Buckets, *, cuts: bool = True) -> list[int]:
    """The places of tasks: each bucket is sent where its last one stood, and cut apart before what needs it first.

    Ops that need one of a bucket come behind that. `~number` is where the bucket is cut apart that `number` ends, if
    that is asked for. Buckets stand one behind the other.
    """
    order: list[int] = []
    begun = 0
    for bucket in buckets:
        first, last = bucket[0], bucket[-1]
        inside, members = sum([_own(leading, number) for number in bucket]), set(bucket)
        between = [number for number in range(first, last) if number not in members]
        order += range(begun, first)
        order += [number for number in between if not leading[number] & inside]
        order.append(last)
        order += [number for number in between if leading[number] & inside]
        begun = last + 1
    order += range(begun, len(leading))
    return _with_cuts(tasks, order, buckets) if cuts else order


def _with_cuts(tasks: Tasks, order: Sequence[int], buckets: Buckets) -> list[int]:
    """The places of tasks in an order, with those where buckets are cut apart."""
    bucket_of = {number: bucket for bucket in buckets for number in bucket}
    places = {number: place for place, number in enumerate(order)}
    cuts: dict[int, list[int]] = defaultdict(list)
    for bucket in buckets:
        readers = {bucket_of.get(other, (other,))[-1] for number in bucket for other in tasks.behind[number]}
        cuts[min([places[number] for number in readers], default=len(order))].append(bucket[-1])
    cut: list[int] = []
    begun = 0
    for place, ends in sorted(cuts.items()):
        cut += order[begun:place]
        if len(ends) > 1 and place < len(order):  # as what reads them names them
            members = bucket_of.get(order[place], (order[place],))
            needs = [need for number in members for need in tasks.tasks[number].needs if need in bucket_of]
            ends.sort(key=[bucket_of[need][-1] for need in needs].index)
        cut += [~end for end in ends]
        begun = place
    return [*cut, *order[begun:]]


def _own(leading: Sequence[int], number: int) -> int:
    """The bit of a collective: of those that lead to it, itself included, it stands last."""
    return 1 << leading[number].bit_length() - 1


def _parts(program: ExplicitProgram, now: _Now, kind: Kind, bucket: Sequence[int]) -> dict[int, Task]:
    """By their places, the tasks that do what those of a bucket do; `~number` is what lies between, where it does."""
    tasks, end, some = now.tasks.tasks, bucket[-1], [now.ops[number] for number in bucket]
    cost = sum([cost_beside(program, op, kind) for op in some], Cost())._replace(starts=1)
    reads = tuple(dict.fromkeys(value for number in bucket for value in tasks[number].reads))
    makes = tuple(value for number in bucket for value in tasks[number].makes)
    queue = tasks[end].works[0].queue
    if kind.step is AllReduce:
        return {end: Task((Work(program.seconds(cost), queue, reads, makes),), (), reads, makes)}
    copied = [is_copied(program, op) for op in some]
    joined = [op.operands[0] for op, (first, _) in zip(some, copied, strict=True) if first]
    cut_out = [op.results[0] for op, (_, then) in zip(some, copied, strict=True) if then]
    before, behind = (Work(_copying_seconds(program, values), Queue.COMPUTE) for values in (joined, cut_out))
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


def _copying_seconds(program: ExplicitProgram, values: Sequence[int]) -> float:
    """Seconds in which a device copies values: each is read and written, by the roofline."""
    layouts = [(program.type(value), program.layout(value)) for value in values]
    locals = [local_type(type, layout) for type, layout in layouts if layout is not None]
    elements, size = (sum(map(attrgetter(what), locals)) for what in ("elements", "bytes"))
    return roofline_seconds(program.hardware, operations=2.0 * elements, bytes_moved=2.0 * size)
