"""Arguments and results whose shards are of sizes that offsets tell, or carry halos: outside they are so, inside not.

A program that is given a tensor of 14 columns cut at 2, 5 and 9 over four devices takes shards of five, the largest,
each filled up behind. Inside shards are of one size; so it begins by sending columns to where they are then:

    %arg0                        tensor<4x20xf32>     [{}, {"x"}]      columns 0, 1, -, -, -, 2, 3, 4, -, -, 5, …
    %0 = sdy.manual_computation  tensor<4x16xf32>     [{}, {"x"}]      columns 0, 1, 2, 3, 4, 5, …, 13, -, -
    %1 = stablehlo.slice         tensor<4x14xf32>     [{}, {"x"}]

A result goes the same way back. Of an argument's halos nothing is read, those of a result are filled with what the
neighbours have, and with zeros where these have nothing. Each turn of the manual computation is one collective_permute
of the most columns that go so far; devices look up in tables which of theirs they send, and where what comes belongs.

Inside of a program offsets and halos that are asked of a value change nothing that it computes: they are left out, and
a note tells so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from shardwright.axes import axes_size
from shardwright.extents import Extent, bounded_dims, cores, filled_shape, held, unbounded
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.types import TensorType
from shardwright.partition.boundary import has_bounds
from shardwright.partition.enclose import manual_body
from shardwright.partition.localize import Local
from shardwright.partition.localize.collectives import local_send
from shardwright.partition.localize.shifts import edged, part, resized
from shardwright.partition.note import Note
from shardwright.routes import Route
from shardwright.sharding import TensorSharding

__all__ = ["bound_notes", "with_segments"]


class _Move(NamedTuple):
    """Rows that go from one shard to another, or stay.

    Attributes:
        sender: The shard that has them.
        receiver: The one that is to have them.
        start: At which row of the first they begin.
        place: At which row of the other.
        rows: How many.
    """

    sender: int
    receiver: int
    start: int
    place: int
    rows: int


def bound_notes(graph: Graph) -> Iterator[Note]:
    """The values inside a program of which offsets or halos are asked."""
    if not has_bounds(graph):
        return
    returned = frozenset(graph.main.block.terminator.operands)
    for op in graph.walk():
        for value in (*op.results, *(value for block in op.regions for value in block.arguments)):
            sharding = graph.shardings[value]
            if sharding is not None and bounded_dims(sharding) and value not in returned:
                what = "offsets" if sharding.offsets else "halos"
                message = (
                    f"a value is to have {what}, {sharding!r}: inside a program shards are of one size, without halos"
                )
                remedy = "ask it of an argument or of a result, or leave it out"
                yield Note(op.signature.label, str(graph.locations[op.location]), message, 0, remedy=remedy)


def with_segments(graph: Graph, annotated: Graph | None) -> tuple[Graph, Graph | None]:
    """A propagated program, and that which it was propagated from, with arguments and results of shards of one size.

    The graphs given stay as they are, and are given back where nothing has offsets or halos.
    """
    asked = annotated if annotated is not None else graph
    if not has_bounds(graph) and not has_bounds(asked):
        return graph, annotated
    into = [asked.shardings[value] for value in asked.main.block.arguments]
    out = asked.stated_results
    segmented = _Segmented(_unbounded(graph), into, out)
    segmented.run()
    if annotated is None:
        return segmented.graph, None
    plain = _unbounded(annotated)
    for number, (value, lies) in enumerate(zip(plain.main.block.arguments, into, strict=True)):
        plain.shardings[value] = _outside(lies) or plain.shardings[value]
        plain.types[value] = segmented.graph.types[segmented.graph.main.block.arguments[number]]
    results = [_outside(lies) or own for lies, own in zip(out, plain.main.result_shardings, strict=True)]
    plain.main = replace(plain.main, result_shardings=results)
    return segmented.graph, plain


def _unbounded(graph: Graph) -> Graph:
    """A copy of a program in which no sharding has offsets or halos."""

    def plain(sharding: TensorSharding | None) -> TensorSharding | None:
        return None if sharding is None else unbounded(sharding)

    main = replace(graph.main, result_shardings=list(map(plain, graph.main.result_shardings)))
    return replace(graph, types=list(graph.types), shardings=list(map(plain, graph.shardings)), main=main)


def _outside(sharding: TensorSharding | None) -> TensorSharding | None:
    """How what callers hand over lies, in shards of one size; `None` of what has neither offsets nor halos."""
    return unbounded(sharding).closed() if sharding is not None and bounded_dims(sharding) else None


class _Segmented:
    """A program in the making; `into` and `out` are how callers have its arguments and results."""

    def __init__(
        self, graph: Graph, into: Sequence[TensorSharding | None], out: Sequence[TensorSharding | None]
    ) -> None:
        self.graph = graph
        self.into = into
        self.out = out

    def run(self) -> None:
        """Write what stands before the program, and behind it."""
        main, block = self.graph.main, self.graph.main.block
        places = main.argument_locations or [0] * len(block.arguments)
        ahead = Builder(self.graph, [])
        arguments: list[int] = []
        for value, sharding, ahead.location in zip(block.arguments, self.into, places, strict=True):
            lies = _outside(sharding)
            arguments.append(value if sharding is None or lies is None else self.taken(ahead, value, sharding, lies))
        last = block.terminator
        behind = Builder(self.graph, [], last.location)
        returned, results = list(last.operands), list(main.result_shardings)
        for number, sharding in enumerate(self.out):
            lies = _outside(sharding)
            if sharding is not None and lies is not None:
                returned[number], results[number] = self.given(behind, returned[number], sharding, lies), lies
        types = tuple(map(behind.type, returned))
        end = Op(last.signature.replace(operands=types), tuple(returned), (), (), last.location)
        ops = [*ahead.ops, *block.ops[:-1], *behind.ops, end]
        self.graph.main = replace(main, block=Block(tuple(arguments), ops), result_shardings=results)

    def taken(self, builder: Builder, value: int, sharding: TensorSharding, lies: TensorSharding) -> int:
        """A new argument, of which `value` is made."""
        type, graph = self.graph.types[value], self.graph
        graph.shardings[value] = lies
        argument = number = graph.new_value(type.with_shape(filled_shape(sharding, type.dims)), lies)
        for dim in bounded_dims(sharding):
            moves = _moves(cores(sharding, type.dims, dim), cores(lies, type.dims, dim))
            number = _moved(builder, number, dim, moves, lies.local_shape(type.dims)[dim], lies)
        last = _cut(builder, number, type, lies)
        builder.ops.append(Op(last.signature, last.operands, (value,), last.regions, last.location))
        return argument

    def given(self, builder: Builder, value: int, sharding: TensorSharding, lies: TensorSharding) -> int:
        """What is returned, made of `value`."""
        type = self.graph.types[value]
        number = _filled(builder, value, type.with_shape(filled_shape(lies, type.dims)), lies)
        for dim in bounded_dims(sharding):
            moves = _moves(cores(lies, type.dims, dim), held(sharding, type.dims, dim))
            number = _moved(builder, number, dim, moves, sharding.local_shape(type.dims)[dim], lies)
        return number


def _cut(builder: Builder, value: int, type: TensorType, lies: TensorSharding) -> Op:
    """The op, taken from what was written, that leaves of a value what a type holds."""
    none = i64_array([0] * type.rank)
    attributes = {"start_indices": none, "limit_indices": i64_array(type.dims), "strides": i64_array([1] * type.rank)}
    builder.emit("slice", (value,), type, attributes, sharding=lies)
    return builder.ops.pop()


def _filled(builder: Builder, value: int, type: TensorType, lies: TensorSharding) -> int:
    """A value with zeros behind it, and in the layout of a result."""
    own, none = builder.type(value).dims, i64_array([0] * type.rank)
    zero = builder.constant(0, TensorType((), type.dtype))
    high = i64_array([new - old for new, old in zip(type.dims, own, strict=True)])
    attributes = {"edge_padding_low": none, "edge_padding_high": high, "interior_padding": none}
    return builder.emit("pad", (value, zero), type, attributes, sharding=lies)


def _moves(source: Sequence[Extent], target: Sequence[Extent]) -> Sequence[_Move]:
    """What goes from shards that hold rows of their own to such as are to hold others."""
    moves: list[_Move] = []
    stops = [extent.stop for extent in source]
    for receiver, wanted in enumerate(target):
        for sender in range(bisect_right(stops, wanted.start), len(source)):
            own = source[sender]
            start, stop = max(own.start, wanted.start), min(own.stop, wanted.stop)
            if own.start >= wanted.stop:
                break
            if start < stop:
                places = own.lead + start - own.start, wanted.lead + start - wanted.start
                moves.append(_Move(sender, receiver, *places, stop - start))
    return moves


def _moved(builder: Builder, value: int, dim: int, moves: Sequence[_Move], size: int, lies: TensorSharding) -> int:
    """A value of which shards along a dimension, of some size then, have what moves there."""
    type = builder.type(value)
    number = builder.graph.new_value(resized(type, dim, size * axes_size(lies.axes[dim])), lies)

    def write(ctx: Local, arguments: Sequence[int]) -> Sequence[int]:
        return [_local_moved(ctx, arguments[0], dim, moves, size, lies)]

    builder.ops.append(manual_body(builder.graph, (value,), (number,), write, location=builder.location))
    return number


def _local_moved(ctx: Local, value: int, dim: int, moves: Sequence[_Move], size: int, lies: TensorSharding) -> int:
    """A shard of what moves to it, and of zeros where nothing does."""
    axes, mesh, shape = lies.axes[dim], lies.mesh, resized(ctx.type(value), dim, size)
    result = ctx.constant(0, shape)
    row = ctx.iota(TensorType((size,), "i32"), 0)

    def table(entries: Mapping[int, int]) -> int:
        """What this shard has of some numbers, 0 where there is none for it."""
        return ctx.looked_up([entries.get(shard, 0) for shard in range(axes_size(axes))], ctx.axis_index(axes, mesh))

    def wide(number: int) -> int:
        return ctx.broadcast(number, (size,))

    for ahead, together in groupby(sorted(moves, key=_distance), key=_distance):
        some = list(together)
        most = max(move.rows for move in some)
        start = table({move.sender: move.start for move in some})
        longer = edged(ctx, value, dim, 0, most)  # so that no slice of it is moved back
        sent = ctx.dynamic_slice(longer, _starts(ctx, shape, dim, start), resized(shape, dim, most).dims)
        if ahead:
            route = replace(Route.along(1, -ahead, axes_size(axes)), first=some[0].receiver, last=some[-1].receiver)
            sent = local_send(ctx, sent, axes, [route], mesh)
        place = table({move.receiver: move.place for move in some})
        end = ctx.binary("add", place, table({move.receiver: move.rows for move in some}))
        put = ctx.emit(
            "dynamic_update_slice",
            (edged(ctx, result, dim, 0, most), sent, *_starts(ctx, shape, dim, place)),
            resized(shape, dim, size + most),
        )
        inside = ctx.binary("and", ctx.compare(row, wide(place), "GE"), ctx.compare(row, wide(end), "LT"))
        result = ctx.select(ctx.broadcast(inside, shape.dims, (dim,)), part(ctx, put, dim, 0, size), result)
    return result


def _distance(move: _Move) -> int:
    return move.receiver - move.sender


def _starts(ctx: Local, type: TensorType, dim: int, start: int) -> list[int]:
    zero = ctx.constant(0, TensorType((), "i32"))
    return [start if at == dim else zero for at in range(type.rank)]
