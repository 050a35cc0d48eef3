"""Ops that move rows along a dimension that is padded, written as pads: of these devices exchange the rows that cross.

What is taken from row `s` on is a pad by `-s` rows in front; what stands behind the rows of the result is padding, and
may be anything. With P rows of the operand and Q of the result, both padded:

    slice [s:e]             pad low = -s,     high = Q - P + s
    slice [s:e:k]           pad low = -s,     high = k Q - P + s, of which every kth row is taken
    pad low = l, high = h   pad low = l,      high = Q - P - l      and as much between rows, which makes more of P
    reverse                 pad low = n - P,  high = Q - n       of the reversed operand
    concatenate             pad low = o,      high = Q - P - o   of each operand, o rows behind the others
    roll, s rows first      pad low = -s, and pad low = n - s of the same operand, joined

Operands of which none is split along the dimension are concatenated as they are, and what they make is padded.
Where a pad puts rows behind, the operand's padding is masked by the padding value first. Of a reversed operand's P rows
the last n are its own. What is joined is selected by row in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardwright.ir.attributes import i64_array, integer
from shardwright.ir.graph import Graph, Op
from shardwright.partition.localize.rolls import ROLL
from shardwright.partition.padding.ops import Seen
from shardwright.partition.padding.versions import Shape, Versions
from shardwright.sharding import TensorSharding

__all__ = ["moved_rows", "shifted"]

_EDGES = ("edge_padding_low", "edge_padding_high", "interior_padding")


@dataclass(frozen=True, slots=True)
class _Move:
    """An op that moves rows, and the shapes of its operands and its result.

    Attributes:
        op: The op.
        sizes: The shapes that it is computed in.
        own: Its own shapes.
        sharding: How its result lies.
        versions: What writes the padded program.
    """

    op: Op
    sizes: Sequence[Shape]
    own: Sequence[Shape]
    sharding: TensorSharding
    versions: Versions

    def read(self, number: int) -> int:
        """An operand in the shape that it is computed in."""
        return self.versions.read(self.op.operands[number], self.sizes[number])


def shifted(op: Op, graph: Graph, shapes: Mapping[int, Shape], versions: Versions) -> int | None:
    """Write an op that moves rows along dimensions of which some are padded; its result, padded.

    Arguments:
        op: The op.
        graph: The program that it is in.
        shapes: The shapes of values that are padded.
        versions: The values of the padded program, and what writes it.

    Returns:
        The value; `None` for another op, and for one that moves rows along no padded dimension.
    """
    write = _WRITERS.get(op.name)
    if write is None:
        return None
    wide = [shapes.get(value, graph.types[value].dims) for value in (*op.operands, *op.results)]
    own = [graph.types[value].dims for value in (*op.operands, *op.results)]
    moved = _moved_dims(op, own)
    if all(one[dim] == other[dim] for one, other in zip(wide, own, strict=True) for dim in moved if one):
        return None
    sharding = graph.shardings[op.results[0]]
    if sharding is None:
        return None
    return write(_Move(op, _goes_along(wide, own, moved), own, sharding, versions))


def _moved_dims(op: Op, own: Sequence[Shape]) -> tuple[int, ...]:
    """The dimensions along which an op moves rows."""
    signature = op.signature
    if op.name in ("stablehlo.concatenate", ROLL):
        return (signature.get("dimension"),)
    if op.name == "stablehlo.reverse":
        dims: tuple[int, ...] = signature.get("dimensions", ())
        return dims
    if op.name == "stablehlo.slice":
        starts = signature.get("start_indices", ())
        return tuple(dim for dim, (old, new) in enumerate(zip(*own, strict=True)) if old != new or starts[dim])
    padding = zip(*(signature.get(name, ()) for name in _EDGES), strict=True)
    return tuple(dim for dim, pads in enumerate(padding) if any(pads))


def _goes_along(wide: Sequence[Shape], own: Sequence[Shape], moved: Sequence[int]) -> list[Shape]:
    """The shapes that an op is computed in: in dimensions that it only goes through, one size for all tensors."""
    rank = len(own[-1])
    largest = [max(shape[dim] for shape in wide if len(shape) == rank) for dim in range(rank)]
    return [
        tuple([size if dim in moved else largest[dim] for dim, size in enumerate(shape)])
        if len(shape) == rank
        else shape
        for shape in wide
    ]


def moved_rows(
    versions: Versions,
    number: int,
    low: Mapping[int, int],
    shape: Shape,
    sharding: TensorSharding,
    value: int | None = None,
    between: Sequence[int] = (),
) -> int:
    """A pad of a value to a shape, by some rows in front, or by less than none where rows go.

    Arguments:
        versions: What writes the padded program.
        number: The value.
        low: By dimension the rows in front.
        shape: The shape.
        sharding: How it lies then.
        value: What stands in the new rows; zero if it is not given.
        between: By dimension the rows between two.
    """
    type = versions.builder.type(number)
    between = between or [0] * type.rank
    spread = [size + max(0, size - 1) * some for size, some in zip(type.dims, between, strict=True)]
    front = [low.get(dim, 0) for dim in range(type.rank)]
    back = [new - old - some for new, old, some in zip(shape, spread, front, strict=True)]
    if not any(front) and not any(back) and not any(between):
        return number
    attributes = dict(zip(_EDGES, map(i64_array, (front, back, between)), strict=True))
    filling = versions.zero(sharding, type.dtype) if value is None else value
    return versions.builder.emit("pad", (number, filling), type.with_shape(shape), attributes, sharding=sharding)


def _padded(move: _Move, number: int, low: Mapping[int, int]) -> int:
    """A value with some rows in front, or with less than none where rows go, in the shape of the result."""
    return moved_rows(move.versions, number, low, move.sizes[-1], move.sharding)


def _slice(move: _Move) -> int:
    signature, result = move.op.signature, move.sizes[-1]
    starts, steps = signature.get("start_indices", ()), signature.get("strides", ())
    taken = tuple([size * step for size, step in zip(result, steps, strict=True)])
    front = {dim: -start for dim, start in enumerate(starts)}
    number = moved_rows(move.versions, move.read(0), front, taken, move.sharding)
    if taken == result:
        return number
    type = move.versions.builder.type(number)
    attributes = {
        "start_indices": i64_array([0] * type.rank),
        "limit_indices": i64_array(taken),
        "strides": i64_array(steps),
    }
    return move.versions.builder.emit("slice", (number,), type.with_shape(result), attributes, sharding=move.sharding)


def _pad(move: _Move) -> int:
    low, high, between = (move.op.signature.get(name, ()) for name in _EDGES)
    number, value = move.read(0), move.read(1)
    seen = [
        dim
        for dim, (size, own) in enumerate(zip(move.sizes[0], move.own[0], strict=True))
        if size > own and high[dim] > between[dim]
    ]
    if seen:
        number = move.versions.masked(number, Seen(0, tuple(seen), None), move.op.operands[0], value)
    return moved_rows(move.versions, number, dict(enumerate(low)), move.sizes[-1], move.sharding, value, between)


def _reverse(move: _Move) -> int:
    builder, operand = move.versions.builder, move.read(0)
    type = builder.type(operand)
    signature = move.op.signature.replace(operands=(type,), results=(type,))
    (number,) = builder.append(signature, (operand,), (builder.graph.shardings[operand],))
    behind = {dim: move.own[0][dim] - type.dims[dim] for dim in signature.get("dimensions", ())}
    return _padded(move, number, behind)


def _concatenate(move: _Move) -> int:
    dim: int = move.op.signature.get("dimension")
    if _are_whole(move, dim):
        return _padded(move, _joined(move, dim), {})
    joined, rows = _padded(move, move.read(0), {}), move.own[0][dim]
    for number in range(1, len(move.op.operands)):
        piece = _padded(move, move.read(number), {dim: rows})
        joined = move.versions.before(dim, rows, joined, piece)
        rows += move.own[number][dim]
    return joined


def _are_whole(move: _Move, dim: int) -> bool:
    """Whether no operand is padded along a dimension, or split; of what is on one device dimensions say nothing."""
    for number, (size, own) in enumerate(zip(move.sizes, move.own[:-1], strict=False)):
        sharding = move.versions.builder.graph.shardings[move.read(number)]
        is_split = sharding is not None and sharding.rank and sharding.evenly_dividing(own).axes[dim]
        if size[dim] != own[dim] or is_split:
            return False
    return True


def _joined(move: _Move, dim: int) -> int:
    """The concatenation of operands that are whole along its dimension, as long as they are together."""
    pieces = tuple(map(move.read, range(len(move.op.operands))))
    type = move.versions.builder.type(pieces[0])
    dims = list(move.sizes[-1])
    dims[dim] = move.own[-1][dim]
    axes = [() if of == dim else axes for of, axes in enumerate(move.sharding.axes)]
    attributes = {"dimension": integer(dim)}
    shape, sharding = type.with_shape(tuple(dims)), move.sharding.with_axes(axes)
    return move.versions.builder.emit("concatenate", pieces, shape, attributes, sharding=sharding)


def _roll(move: _Move) -> int:
    dim, start = move.op.signature.get("dimension"), move.op.signature.get("start")
    number, rows = move.read(0), move.own[0][dim] - start
    return move.versions.before(dim, rows, _padded(move, number, {dim: -start}), _padded(move, number, {dim: rows}))


_WRITERS: dict[str, Callable[[_Move], int]] = {
    "stablehlo.concatenate": _concatenate,
    "stablehlo.pad": _pad,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    ROLL: _roll,
}
