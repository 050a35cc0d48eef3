"""What a device does for each op of an explicit program, and how long a block takes whose collectives run beside it.

A collective is a work on the links or the network that its devices talk over, any other op one of computation; an op
inside which devices exchange something is both, and waits for what comes. Ops of a manual computation are works one by
one, as they stand on a device in the end. A loop, and a branch, takes what its blocks do, in which what they hold
overlaps, as often as they run; of that it takes first what they send, so that nobody else does meanwhile. Times are
those of `cost.price`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shardwright.analysis.groups import replica_groups, source_target_pairs
from shardwright.analysis.traffic import KINDS
from shardwright.cost.collectives import sent_bytes
from shardwright.cost.nodes import Spread, spread_of, spread_of_devices
from shardwright.cost.overlap import Queue, Work, is_collective, overlapped_seconds, queue_of
from shardwright.cost.price import Cost, talking_axes
from shardwright.cost.torus import Torus, pairs_over, paths_of, paths_of_devices, torus_on
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.mesh import Mesh
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.partition.localize.manual import sent_together
from shardwright.partition.search.total import computed_cost
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import Send, Step

__all__ = ["block_seconds", "is_collective", "is_less", "part_in_loops", "works_of"]

_LEAST = 1e-9
"""What has to be saved of a time: less may be rounding."""

_KINDS = {f"stablehlo.{kind}": kind for kind in KINDS}
_NOWHERE = Mesh()
"""The mesh of what one device computes."""

_AS_THEY_ARE: Mapping[int, int] = {}


def block_seconds(program: ExplicitProgram, ops: Iterable[Op]) -> float:
    """The seconds that ops of a block take in this order, once."""
    return overlapped_seconds(itertools.chain.from_iterable(works_of(program, op) for op in ops))


def part_in_loops(explicit: Graph) -> float:
    """What part of its time an explicit program would take for the collectives in its loops by themselves."""
    program, ops = ExplicitProgram(explicit), explicit.main.block.ops
    loops = [work for op in ops if op.name == "stablehlo.while" for work in works_of(program, op)]
    seconds = block_seconds(program, ops)
    return sum(work.seconds for work in loops if work.queue is not Queue.COMPUTE) / seconds if seconds else 0.0


def works_of(program: ExplicitProgram, op: Op) -> tuple[Work, ...]:
    """What a device does for an op, in order; values are those of the program.

    Of an op without regions that is known until it reads other values; bodies of manual computations stay as they are.
    """
    known = program.works.get(op)
    if known is not None and known[0] is op.operands:
        return known[1]
    works = tuple(_works(program, op, _AS_THEY_ARE))
    if not op.regions or op.name == MANUAL:
        program.works[op] = op.operands, works
    return works


def is_less(seconds: float, before: float) -> bool:
    """Whether a time is less than another by more than rounding."""
    return before - seconds > _LEAST * before


def _works(program: ExplicitProgram, op: Op, names: Mapping[int, int]) -> Iterator[Work]:
    """The works of an op, which reads and makes the values that `names` has for others."""
    if op.name == MANUAL:
        yield from _of_body(program, op, names)
        return
    reads = tuple([names.get(value, value) for value in op.reads()])
    makes = tuple([names.get(value, value) for value in op.results])
    if op.regions:
        yield from _of_regions(program, op, reads, makes)
    else:
        (seconds, queue), *then = _priced(program, op)
        yield Work(seconds, queue, reads, makes)
        yield from [Work(seconds, queue, makes, makes) for seconds, queue in then]


def _priced(program: ExplicitProgram, op: Op) -> tuple[tuple[float, Queue], ...]:
    """What an op without regions takes, and where: what is sent, and what is computed when that has come.

    Known of ops of one signature whose values lie alike, which are few objects.
    """
    shardings = [program.graph.shardings[value] for value in op.operands + op.results]
    key = id(op.signature), *map(id, shardings)
    known = program.prices.get(key)
    if known is None:
        known = program.prices[key] = tuple(_prices(program, op)), (op.signature, shardings)
    return known[0]


def _prices(program: ExplicitProgram, op: Op) -> Iterator[tuple[float, Queue]]:
    if op.name in _KINDS:
        cost, queue = _on_device(program, op)
        yield program.seconds(cost), queue if cost.starts else Queue.COMPUTE
        return
    cost = _cost(program, op)
    if cost.starts:
        ways = {"bytes_between_nodes": cost.bytes_between_nodes, "bytes_beside": cost.bytes_beside}
        sent = Cost(cost.bytes_sent, cost.starts, bytes_copied=cost.bytes_copied, **ways)
        yield program.seconds(sent), _queue(program, op)
    if not cost.starts or program.step(op) is None:  # it waits for what devices exchange inside it
        computed = cost._replace(bytes_sent=0.0, starts=0, bytes_between_nodes=0.0, bytes_beside=0.0)
        yield program.seconds(computed), Queue.COMPUTE


def _of_regions(program: ExplicitProgram, op: Op, reads: tuple[int, ...], makes: tuple[int, ...]) -> Iterator[Work]:
    """The works of a loop or a branch: what is sent in it, and what it takes beyond that."""
    total, computed, sent = 0.0, 0.0, dict.fromkeys((Queue.LINKS, Queue.NETWORK), 0.0)
    for region in op.regions:
        works = [work for inner in region.ops for work in works_of(program, inner)]
        times = program.times_inside(region, op)
        total += times * overlapped_seconds(works)
        computed += times * sum(work.seconds + work.beside for work in works if work.queue is Queue.COMPUTE)
        for queue in sent:
            sent[queue] += times * sum(work.seconds for work in works if work.queue is queue)
    for queue, seconds in sent.items():
        if seconds:
            yield Work(seconds, queue, reads, makes)
            total, reads = total - seconds, makes
    left = max(0.0, total)
    yield Work(left, Queue.COMPUTE, reads, makes, max(0.0, computed - left))


def _of_body(program: ExplicitProgram, op: Op, names: Mapping[int, int]) -> Iterator[Work]:
    """The works of a manual computation: its body takes its place."""
    body = op.regions[0]
    outside = [names.get(value, value) for value in (*op.operands, *op.results)]
    inside = dict(zip(body.arguments, outside, strict=False))
    later: list[Work] = []
    for value, result in zip(body.terminator.operands, outside[len(op.operands) :], strict=True):
        if value in inside:  # handed through, or given twice
            later.append(Work(0.0, Queue.COMPUTE, (inside[value],), (result,)))
        else:
            inside[value] = result
    for ops in sent_together(body.ops[:-1]):
        works = [work for inner in ops for work in _works(program, inner, inside)]
        is_one = len(ops) > 1 and works[0].queue is not Queue.COMPUTE
        yield from [_started_once(program, works)] if is_one else works
    yield from later


def _started_once(program: ExplicitProgram, works: Sequence[Work]) -> Work:
    """Collectives that are sent as one."""
    sent = sum(work.seconds for work in works) - (len(works) - 1) * program.seconds(Cost(starts=1))
    reads = tuple(dict.fromkeys(itertools.chain.from_iterable(work.reads for work in works)))
    makes = tuple(itertools.chain.from_iterable(work.makes for work in works))
    return Work(sent, works[0].queue, reads, makes)


def _cost(program: ExplicitProgram, op: Op) -> Cost:
    """What an op without regions costs; one that stands for one device is computed whole there.

    One that adds nothing up touches no more elements than there are, and one that works in place those that it writes.
    """
    values = (*op.operands, *op.results)
    if program.layouts(values) is not None or op.name.startswith("sdy."):
        return program.cost(op)
    if not values or not all(program.type(value).is_tensor for value in values):
        return Cost()
    operands, results = (
        tuple([replicated(_NOWHERE, program.type(value).rank) for value in some]) for some in (op.operands, op.results)
    )
    cost, facts = computed_cost(op.signature, operands, results, program.hardware), facts_of(op.name)
    if facts.sums:
        return cost
    touched = op.signature.operands[1:] if facts.in_place else (*op.signature.operands, *op.signature.results)
    return cost._replace(multiply_adds=min(cost.multiply_adds, max([type.elements for type in touched], default=0)))


def _queue(program: ExplicitProgram, op: Op) -> Queue:
    """Over what devices talk in an op: the network, as soon as they do in any of what they exchange."""
    step, layouts = program.step(op), program.layouts(op.operands)
    if not layouts:
        return Queue.COMPUTE
    if step is not None:
        steps: list[tuple[Step | Send, TensorSharding]] = [(step, layouts[0])]
    else:
        steps = [(one.step, one.before) for one in exchanges_of(op.signature, layouts)]
    devices = program.hardware.node_devices
    queues = {queue_of(talking_axes(step, layout), layout.mesh, devices) for step, layout in steps}
    return Queue.NETWORK if Queue.NETWORK in queues else Queue.LINKS


def _on_device(program: ExplicitProgram, op: Op) -> tuple[Cost, Queue]:
    """What a collective of StableHLO costs, and over what its devices talk."""
    kind, graph, hardware = _KINDS[op.name], program.graph, program.hardware
    devices, torus = hardware.node_devices, torus_on(graph.mesh.size, hardware.links)
    operand, result = (sum(type.bytes for type in types) for types in (op.signature.operands, op.signature.results))
    if kind == "collective_permute":
        rows = tuple([pair for pair in source_target_pairs(op.signature) if pair[0] != pair[1]])
        size, spread = 2 if rows else 1, _widest(rows, devices)
        over = pairs_over(rows, torus) if rows and torus else 1.0
    else:
        groups = replica_groups(op.signature, graph.meshes, graph.mesh.size)
        size = groups.size
        if groups.axes is not None and groups.mesh is not None:
            spread = spread_of(groups.axes, groups.mesh, devices)
            over = paths_of(groups.axes, groups.mesh, torus).part_of(kind) if torus else 1.0
        else:
            spread = _widest(groups.table, devices)
            over = _busiest(kind, groups.table, torus)
    sent = sent_bytes(kind, operand, result, size)
    far = sent * spread.part_of(kind) if hardware.devices_near is not None else 0.0
    queue = Queue.LINKS if spread.nodes == 1 else Queue.NETWORK
    return Cost(sent, int(size > 1), bytes_between_nodes=far, bytes_beside=(sent - far) * (1 - over)), queue


def _busiest(kind: str, rows: Iterable[Sequence[int]], torus: Torus | None) -> float:
    """How much of what a device sends goes over its busiest link, in that of some groups where that is most."""
    if torus is None:
        return 1.0
    return max([paths_of_devices(row, torus).part_of(kind) for row in rows], default=1.0)


def _widest(rows: Iterable[Sequence[int]], node_devices: int | None) -> Spread:
    """Where the devices of that of some groups stand that are of most nodes."""
    return max([spread_of_devices(row, node_devices) for row in rows], default=Spread(1, 1))
