"""Rows of a split dimension that are taken behind the elementwise ops which narrow them.

    %1 = slice %x [5:6]                of eight rows in four shards of two: the row 1 of shard 2
    %2 = convert %1 : f32 -> i8

A row that one device has is a contribution to a sum, and a sum is reduced before it is rounded: as what it was, f32.
Elementwise ops are the same on each device's own candidate, of which one is the row, and what they give is narrower:

    %0 = slice %x [1:8:2]              the row 1 of every shard, which sends nothing
    %1 = convert %0 : f32 -> i8
    %2 = slice %1 [2:3]                a contribution to a sum of i8

No device does more than it did, since all of them computed the row; what is reduced has fewer bytes, and nothing else
is sent. So that it is known what is reduced, the program is decided as it is first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from shardwright.axes import Axes, axes_size, overlaps_any
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.copying import with_ops_replaced
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.types import TensorType
from shardwright.partition.decisions import Computed, Decision, Decisions, Reshard
from shardwright.partition.localize.checks import is_split
from shardwright.partition.targets import Targets
from shardwright.rules.text import ATTRIBUTE
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, ReduceScatter

__all__ = ["is_late_row", "with_late_rows"]

T = TypeVar("T")

_SLICE, _RESHAPE = "stablehlo.slice", "stablehlo.reshape"


def with_late_rows(graph: Graph, decisions: Decisions) -> Graph:
    """A program whose rows are taken behind what narrows them; the graph itself where no wider ones are reduced.

    Arguments:
        graph: A propagated program whose split dimensions divide. It stays as it is.
        decisions: What was decided of it.
    """
    decided = zip(graph.walk(), decisions.ops, strict=True)
    slices = [(op, decision) for op, decision in decided if op.signature.name == _SLICE]
    rows = {op: row for op, decision in slices if (row := _row(op, decision)) is not None}
    if not rows:
        return graph
    program = _Program(graph, Targets(graph), dict(zip(graph.walk(), decisions.ops, strict=True)))
    found = [late for block in graph.main.block.blocks(opaque=(MANUAL,)) for late in _found(program, block, rows)]
    if not found:
        return graph
    made = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
    written: dict[Op, list[Op]] = {}
    for late in found:
        written |= _Writer(made, program.targets, late).written()
    made.main = replace(graph.main, block=with_ops_replaced(graph.main.block, written))
    return made


def is_late_row(op: Op, decision: Decision | None) -> bool:
    """Whether an op takes a row which was decided to be contributed, so that more may come before it."""
    return op.signature.name == _SLICE and _row(op, decision) is not None


@dataclass(frozen=True, slots=True)
class _Program:
    """What is to be written otherwise, and what was decided of it."""

    graph: Graph
    targets: Targets
    decisions: Mapping[Op, Decision | None]


@dataclass(frozen=True, slots=True)
class _Row:
    """A single row of a dimension, in one of its shards.

    Attributes:
        op: The slice that takes it, and nothing of other dimensions that are split.
        dim: The dimension.
        axes: The axes that split it.
        number: Its number in the whole dimension.
        rows: How many each shard has.
    """

    op: Op
    dim: int
    axes: Axes
    number: int
    rows: int

    def is_free_of(self, layout: TensorSharding | None) -> bool:
        """Whether devices that have different shards of the dimension hold the same of a complete value."""
        if layout is None:
            return True
        used = [axis for axes in layout.axes for axis in axes]
        return not layout.partial and not any(overlaps_any(axis, used) for axis in self.axes)

    def is_one(self, dims: Sequence[int]) -> bool:
        """Whether a value has the shape of the row, or that without the dimension."""
        shape = self.op.signature.results[0].dims
        return tuple(dims) in (shape, _without(shape, self.dim))


@dataclass(frozen=True, slots=True)
class _Late:
    """A row, and the ops on it that come first: the last one narrows it, and nothing else reads what others make."""

    row: _Row
    ops: tuple[Op, ...]


def _row(op: Op, decision: Decision | None) -> _Row | None:
    """The row that a slice takes which was decided to be contributed."""
    if not isinstance(decision, Computed) or op.signature.text(ATTRIBUTE):
        return None
    (layout,), (made,) = decision.operands, decision.results
    if layout is None or made is None or layout.partial or not made.partial:
        return None
    sizes = zip(op.signature.operands[0].dims, op.signature.results[0].dims, strict=True)
    cut = [(dim, size, taken) for dim, (size, taken) in enumerate(sizes) if is_split(layout.axes[dim]) and taken < size]
    if len(cut) != 1 or cut[0][2] != 1:
        return None
    ((dim, size, _),) = cut
    axes = layout.axes[dim]
    return _Row(op, dim, axes, op.signature.get("start_indices")[dim], size // axes_size(axes))


def _found(program: _Program, block: Block, rows: Mapping[Op, _Row]) -> Iterator[_Late]:
    """The rows of a block that are narrowed, each op with one of them."""
    here = [op for op in block.ops if op in rows]
    if not here:
        return
    readers: dict[int, list[int]] = defaultdict(list)
    for place, op in enumerate(block.ops):
        for value in set(op.reads()):
            readers[value].append(place)
    taken: set[Op] = set()
    for op in here:
        ops = _narrowing(program, block, rows[op], readers, taken)
        taken.update(ops)
        if ops:
            yield _Late(rows[op], ops)


def _narrowing(
    program: _Program, block: Block, row: _Row, readers: Mapping[int, Sequence[int]], taken: set[Op]
) -> tuple[Op, ...]:
    """The ops that a row goes through until it has the fewest bytes, if it was reduced where it had more; else none.

    They are gone through in order. Where no op is ahead that reads any of them but the last, nothing else is read.
    """
    types = program.graph.types
    inside, ops, best = {row.op.results[0]}, list[Op](), 0
    ahead, least = list(readers[row.op.results[0]]), 0
    while ahead:
        op = block.ops[heapq.heappop(ahead)]
        decision = program.decisions[op]
        if op in taken or not isinstance(decision, Computed):
            break
        if not _goes_row_by_row(program.targets, op, decision, row, inside):
            break
        ops.append(op)
        reduced = [v.value for v in decision.before if isinstance(v, Reshard) and v.value in inside and _reduces(v)]
        least = max([least, *[types[value].bytes for value in reduced]])
        (result,) = op.results
        if not ahead and types[result].bytes < least:
            best, least = len(ops), types[result].bytes
        inside.add(result)
        for place in readers.get(result, ()):
            if place not in ahead:
                heapq.heappush(ahead, place)
    return tuple(ops[:best])


def _reduces(version: Reshard) -> bool:
    return any(isinstance(step, AllReduce | ReduceScatter) for step in version.steps)


def _goes_row_by_row(targets: Targets, op: Op, decision: Computed, row: _Row, inside: set[int]) -> bool:
    """Whether an op computes each row alone, of rows `inside` and of what all devices have."""
    signature = op.signature
    if signature.text(ATTRIBUTE) or len(op.results) != 1 or not row.is_one(signature.results[0].dims):
        return False
    if not all(map(row.is_free_of, targets.of(op.results))):
        return False
    facts = facts_of(signature.name)
    if signature.name != _RESHAPE and (not facts.elementwise or facts.effects):
        return False
    others = [
        layout
        for value, type, read in zip(op.operands, signature.operands, decision.operands, strict=True)
        if value not in inside and type.rank
        for layout in (read, *targets.of((value,)))
    ]
    return all(map(row.is_free_of, others))


class _Writer:
    """Writes the ops of one row, for all rows that stand in its place in their shards, and the slice behind them."""

    def __init__(self, graph: Graph, targets: Targets, late: _Late) -> None:
        self.graph = graph
        self.targets = targets
        self.late = late
        self.row = late.row
        self.shape = late.row.op.signature.results[0].dims
        self.values: dict[int, int] = {}  # those of the row: all rows

    def written(self) -> dict[Op, list[Op]]:
        """The ops in the place of each."""
        written = {self.row.op: self.candidates()}
        for op in self.late.ops:
            builder = Builder(self.graph, [], op.location)
            self.widened(builder, op)
            written[op] = builder.ops
        last = self.late.ops[-1]
        written[last] += self.taken(last)
        return written

    def candidates(self) -> list[Op]:
        """Of every shard the row that stands where the one does in its own, of whole dimensions what is taken."""
        row, op = self.row, self.row.op
        made = self.of_all(op.results[0])
        if made[0] == op.signature.operands[0]:
            self.values[op.results[0]] = op.operands[0]
            return []
        bounds = {name: list(op.signature.get(name)) for name in ("start_indices", "limit_indices", "strides")}
        bounds["start_indices"][row.dim] = row.number % row.rows
        bounds["limit_indices"][row.dim] = op.signature.operands[0].dims[row.dim]
        bounds["strides"][row.dim] = row.rows
        builder = Builder(self.graph, [], op.location)
        self.values[op.results[0]] = self.slice(builder, op.operands[0], made, bounds)
        return builder.ops

    def widened(self, builder: Builder, op: Op) -> None:
        """An op on all rows; one that only leaves out the dimension, or brings it back, is none."""
        (result,) = op.results
        if op.signature.name == _RESHAPE:
            self.values[result] = self.values[op.operands[0]]
            return
        is_scalar = not op.signature.results[0].rank
        operands = [self.operand(builder, value, is_scalar) for value in op.operands]
        type, layout = self.of_all(result)
        signature = op.signature.replace(operands=tuple(map(builder.type, operands)), results=(type,))
        (self.values[result],) = builder.append(signature, operands, (layout,))

    def operand(self, builder: Builder, value: int, is_scalar: bool) -> int:
        """All rows, or what is the same for each of them; a scalar beside rows that are none stays one."""
        type = builder.type(value)
        if value in self.values or (not type.rank and not is_scalar):
            return self.values.get(value, value)
        dims = [dim for dim in range(len(self.shape)) if type.rank == len(self.shape) or dim != self.row.dim]
        wide, layout = self.of_all(value)
        return builder.emit("broadcast_in_dim", (value,), wide, {"broadcast_dimensions": i64_array(dims)}, (), layout)

    def taken(self, last: Op) -> list[Op]:
        """The row, of what was computed of all."""
        (result,), dim, shard = last.results, self.row.dim, self.row.number // self.row.rows
        type, (layout,) = self.graph.types[result], self.targets.of(last.results)
        builder = Builder(self.graph, [], last.location)
        all_rows = self.values[result]
        limits = builder.type(all_rows).dims
        bounds = {"start_indices": [0] * len(limits), "limit_indices": list(limits), "strides": [1] * len(limits)}
        bounds["start_indices"][dim], bounds["limit_indices"][dim] = shard, shard + 1
        one = None if layout is None else layout.with_axes(self.axes(layout, ()))
        value = self.slice(builder, all_rows, (type.with_shape(self.shape), one), bounds)
        if type.dims != self.shape:
            builder.emit("reshape", (value,), type, sharding=layout)
        *ops, end = builder.ops
        return [*ops, Op(end.signature, end.operands, last.results, (), end.location)]

    def slice(
        self,
        builder: Builder,
        value: int,
        made: tuple[TensorType, TensorSharding | None],
        bounds: Mapping[str, Sequence[int]],
    ) -> int:
        attributes = {name: i64_array(numbers) for name, numbers in bounds.items()}
        return builder.emit("slice", (value,), made[0], attributes, (), made[1])

    def of_all(self, value: int) -> tuple[TensorType, TensorSharding | None]:
        """The type and the sharding of all rows, of each of which there is such a value."""
        shape, row, (layout,) = list(self.shape), self.row, self.targets.of((value,))
        shape[row.dim] = axes_size(row.axes)
        made = None if layout is None else layout.with_axes(self.axes(layout, row.axes))
        return self.graph.types[value].with_shape(tuple(shape)), made

    def axes(self, layout: TensorSharding, rows: Axes) -> tuple[Axes, ...]:
        """The axes of a value of the row, or of that without the dimension, and those of the dimension."""
        others = _without(layout.axes, self.row.dim) if layout.rank == len(self.shape) else layout.axes
        return (*others[: self.row.dim], rows, *others[self.row.dim :])


def _without(items: Sequence[T], place: int) -> tuple[T, ...]:
    return (*items[:place], *items[place + 1 :])
