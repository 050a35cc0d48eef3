"""Collective matmul: a product begins with the part that is there, while the others come.

    %1 = all_gather %a                          manual_computation (%a, %b) {
    %2 = dot %1, %b                      →        permute %a; dot %a, %b; permute …; dot …      }

    %1 = dot %a, %b          partial{x}         manual_computation (%a, %b) {
    %2 = reduce_scatter %1               →        dot; permute; dot; add; permute; dot; add …   }

A product that is the only reader of what is gathered computes part by part, and the parts go round a ring of devices.
Of a free dimension each part of the result is written into its place. Of a contracted one they are added, in another
order on each device: legal where the devices of the ring compute different parts of the result, by the layout of that,
and not where they hold the same, since copies of a value must be the same to the bit. A product of which only the sum
over devices is read, scattered along a free dimension or one of a batch, computes the part of one device after the
other, and the sums go round the ring.

Legal for all types; the sum is the only reduction of products. Parts of a product are products of another shape, which
compilers add up in another order, and sums go round in the order of the ring: of floating-point numbers nothing of it
is `exact`. Of whole numbers everything is.

It is done where the block takes less time by `cost.overlap`: each device sends the same bytes, by one start for each
part, so that the products of parts must hide more than the starts cost, and, where the memory's speed is known, more
than parts lose (`Hardware.lost_in_parts`) and read and write beyond the whole product: sums of large parts may take
longer than all that is sent. On GPUs they lose much, and XLA hides gathers beside other kernels: five large programs
with rings on H100s all take a little less without, as XLA schedules them. Rings are of `_LONGEST` devices at most,
since turns stand one behind the other in the text. No more is held than before, but for parts: where these are more
than what was gathered, as `ExplicitProgram.spare_bytes` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from shardwright.axes import AxisRef, axes_size
from shardwright.cost.overlap import Queue, Work
from shardwright.cost.price import price
from shardwright.cost.roofline import roofline_seconds
from shardwright.ir.graph import Op
from shardwright.ir.ops import RETURNS
from shardwright.optimize.course import Course
from shardwright.optimize.exactness import keeps_order
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.manual import compute_before, replace
from shardwright.optimize.registry import optimization
from shardwright.optimize.rings import Ring, gathered_product, scattered_product
from shardwright.optimize.scheduling import tasks_of
from shardwright.optimize.works import is_less, works_of
from shardwright.partition.enclose import is_lacking, manual_body
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import local_signature
from shardwright.partition.splits import splits_of
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, ReduceScatter

__all__ = ["around_rings"]

_NAME = "collective-matmul"
_LONGEST = 16
"""How many devices a ring has at most."""


class _Candidate(NamedTuple):
    """A collective and a product that could go round a ring together.

    Attributes:
        first: The one of them that stands first.
        last: The other one, whose result is read.
        taken: The values that both are computed of.
        ring: How.
        write: What one device does.
    """

    first: Op
    last: Op
    taken: tuple[int, ...]
    ring: Ring
    write: Callable[[Local, Ring, Sequence[int]], list[int]]


@optimization(
    _NAME,
    "Has products begin with the parts of what is gathered, or end with those of what is scattered, that are there.",
    on=RETURNS,
    is_late=True,
    is_manual=True,
    is_weighed=True,  # a gather that others were to start with goes round a ring then
)
def around_rings(op: Op, program: ExplicitProgram) -> bool:
    """Let products of the block that an op ends go round rings with their collectives."""
    block = program.block_of(op)
    assert block is not None, "passes are given what may be changed"
    program.rewriter.write()
    some = [one for one in block.ops if isinstance(program.step(one), AllGather | ReduceScatter)]
    if not any(_candidate(program, one) for one in some):
        return False
    tasks = tasks_of(program, block)
    places = {one: place for place, one in enumerate(block.ops)}
    course, done = Course(tasks), False
    for one in some:
        found = _candidate(program, one) if one in program.rewriter else None
        if found is None:
            continue
        works = _works(program, found)
        others = {places[found.first]: (), places[found.last]: _awaiting(works, tasks.awaited)}
        seconds = course.seconds_with(others)
        moving = _moving_seconds(program, found)
        if is_less(seconds + moving, course.seconds) and _fits(program, found):
            _put_in(program, found, (course.seconds - seconds - moving) * program.times(op))
            course.replace(others, seconds)
            done = True
    return done


def _candidate(program: ExplicitProgram, op: Op) -> _Candidate | None:
    """What a collective could be together with; `None` of other ops, and where there is nothing."""
    step = program.step(op)
    if not isinstance(step, AllGather | ReduceScatter) or program.cost(op).starts != 1:
        return None
    dim = max(range(len(step.axes)), key=lambda place: axes_size(step.axes[place]))
    if axes_size(step.axes[dim]) > _LONGEST:
        return None
    return _gathered(program, op, step, dim) if isinstance(step, AllGather) else _scattered(program, op, step, dim)


def _gathered(program: ExplicitProgram, op: Op, step: AllGather, dim: int) -> _Candidate | None:
    """A product that alone reads what is gathered."""
    (value,) = op.results
    readers = program.readers(value)
    if len(readers) != 1 or readers[0].operands.count(value) != 1:
        return None
    (product,) = readers
    moved = product.operands.index(value)
    ring = _ring(program, product, step.axes[dim], moved, dim)
    if ring is None or program.block_of(product) is not program.block_of(op):
        return None
    layout = program.layout(product.results[0])
    if ring.cut[1 - moved] is not None and (ring.place is not None or not _covers(layout, step.axes[dim])):
        return None
    taken = tuple([op.operands[0] if number == moved else one for number, one in enumerate(product.operands)])
    return _Candidate(op, product, taken, ring, gathered_product)


def _scattered(program: ExplicitProgram, op: Op, step: ReduceScatter, dim: int) -> _Candidate | None:
    """A product of which nothing is read but what is scattered."""
    product = program.maker(op.operands[0])
    if step.kind != "sum" or product is None or program.readers(op.operands[0]) != [op]:
        return None
    ring = _ring(program, product, step.axes[dim], None, dim)
    if ring is None or program.block_of(product) is not program.block_of(op):
        return None
    return _Candidate(product, op, product.operands, ring, scattered_product)


def _ring(program: ExplicitProgram, op: Op, axes: tuple[AxisRef, ...], moved: int | None, dim: int) -> Ring | None:
    """How a product goes round a ring that cuts a dimension of an operand, or of its result; `None` where it cannot."""
    signature, splits = op.signature, splits_of(op.signature)
    layouts = program.layouts((*op.operands, *op.results))
    if not facts_of(op.name).product or splits is None or layouts is None or any(map(is_lacking, layouts)):
        return None
    source, target = layouts[:-1], layouts[-1:]
    if len(source) != 2 or not keeps_order(program.exact, signature, source, target):
        return None
    tensors = (*splits.rule.operands, *splits.rule.results)
    (factor,) = tensors[-1 if moved is None else moved][dim]
    left, right, place = [mapping.index((factor,)) if (factor,) in mapping else None for mapping in tensors]
    local = local_signature(signature, source, target)
    return Ring(axes, layouts[0].mesh, local, (left, right), place, moved or 0)


def _covers(layout: TensorSharding | None, axes: tuple[AxisRef, ...]) -> bool:
    """Whether devices that differ along axes hold different parts of a value."""
    return layout is not None and all(any(used.contains(axis) for used in layout.used_axes) for axis in axes)


def _works(program: ExplicitProgram, one: _Candidate) -> tuple[Work, ...]:
    """What a device would do: known of one that is like another, as layers are, but for the values outside."""
    graph, values = program.graph, (*one.taken, *one.last.results)
    tensors = [(graph.types[value], graph.shardings[value]) for value in values]
    key = one.write, one.ring, *tensors, *map(values.index, values)
    known = program.rings.get(key)
    if known is None:
        before = len(graph.types)
        body = manual_body(graph, one.taken, one.last.results, lambda ctx, values: one.write(ctx, one.ring, values))
        works = works_of(program, body)
        program.forget_values(before)
        inside = {value: ~value for work in works for value in (*work.reads, *work.makes) if value not in values}
        known = program.rings[key] = values, _renamed(works, inside)
    return _renamed(known[1], dict(zip(known[0], values, strict=True)))


def _renamed(works: Sequence[Work], names: Mapping[int, int]) -> tuple[Work, ...]:
    """Works of other values."""
    of = names.get
    return tuple(
        [
            Work(
                seconds,
                queue,
                tuple([of(value, value) for value in reads]),
                tuple([of(value, value) for value in makes]),
            )
            for seconds, queue, reads, makes, _ in works
        ]
    )


def _awaiting(works: Sequence[Work], awaited: Collection[int]) -> tuple[Work, ...]:
    """Works that read no more than what has to be waited for: what is computed without waiting is one work."""
    sent = {value for work in works if work.queue is not Queue.COMPUTE for value in work.makes}
    found: list[Work] = []
    for seconds, queue, reads, makes, _ in works:
        waits = tuple([value for value in reads if value in sent or value in awaited])
        if queue is Queue.COMPUTE and not waits and found and found[-1].queue is Queue.COMPUTE:
            found[-1] = found[-1]._replace(seconds=found[-1].seconds + seconds)
        else:
            found.append(Work(seconds, queue, waits, makes))
    return tuple(found)


def _moving_seconds(program: ExplicitProgram, one: _Candidate) -> float:
    """Seconds that parts take beyond their works, which know what each reads; 0 where no memory's speed is known.

    Devices are filled less by them, and each sum of two parts reads both and is written.
    """
    ring, hardware = one.ring, program.hardware
    if hardware.memory_bytes_per_second is None:
        return 0.0
    parts, splits, (made,) = ring.devices, splits_of(ring.part), ring.part.results
    assert splits is not None, "a product can be split"
    part = price(splits.work([1] * len(splits.rule.sizes), hardware), hardware)
    put = 2 * parts if ring.place is not None and one.write is gathered_product else 3 * (parts - 1)
    return hardware.lost_in_parts * parts * part + roofline_seconds(hardware, bytes_moved=put * made.bytes)


def _fits(program: ExplicitProgram, one: _Candidate) -> bool:
    """Whether what is held beside what was held before is to spare."""
    ring = one.ring
    whole, parts = (signature.operands[ring.moved].bytes for signature in (ring.product, ring.part))
    if one.write is scattered_product:
        whole, parts = (signature.results[0].bytes for signature in (ring.product, ring.part))
    held = 2 * parts + ring.part.results[0].bytes - whole
    return held <= max(0.0, program.spare_bytes)


def _put_in(program: ExplicitProgram, one: _Candidate, seconds_saved: float) -> None:
    """Put the ring where the last of the two stands."""
    graph, (value,) = program.graph, one.last.results
    collective = one.first if one.last.name.startswith("stablehlo.") else one.last
    reason = f"its {one.ring.devices} parts go round beside the products of parts"
    program.note(_NAME, collective, reason, 0.0, seconds_saved)
    made = graph.new_value(graph.types[value], graph.shardings[value])
    compute_before(program, one.last, one.taken, [made], lambda ctx, values: one.write(ctx, one.ring, values), reason)
    replace(program, one.last, [made], reason)
    program.gone(one.first)
    program.rewriter.erase(one.first, reason)
