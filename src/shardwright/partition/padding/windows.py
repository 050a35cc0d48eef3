"""Ops that slide windows along a dimension that is padded: each tensor of one has a size of its own there.

With P rows of the operand and Q windows, both padded, windows go as far behind as the Qth takes:

    reduce_window, convolution   high = (Q - 1) stride + reach - low - ((P - 1) base + 1)
    select_and_scatter           windows lie beside each other, P = Q stride

What the windows beyond the own ones make is padding of the result. Where one of the own ones takes rows behind the end
of the operand, the operand's padding is masked by what changes nothing. Where a window beyond the own ones puts
something into an own row, the source's padding is.

Not taken are windows that are shared out within, as the elements of a large kernel: what is put behind these meets rows
that are there, and 0 times infinity is no 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shardwright.axes import axes_size, truncate_by_divisor
from shardwright.ir.attributes import i64_tensor
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.local import has_identity
from shardwright.partition.padding.ops import Seen
from shardwright.partition.padding.sizes import next_multiple
from shardwright.routes import ceil_div
from shardwright.rules.convolution import convolution_dims, convolution_windows
from shardwright.rules.registry import is_given, known_rule
from shardwright.rules.sliding import Sliding, pooling

__all__ = ["PaddedWindows", "padded_windows", "resized_windows", "seen_by_windows"]

Shape = tuple[int, ...]

_POOLING, _SCATTERING, _CONVOLUTION = (
    f"stablehlo.{name}" for name in ("reduce_window", "select_and_scatter", "convolution")
)


@dataclass(frozen=True, slots=True)
class _SlidAlong:
    """A dimension along which windows slide.

    Attributes:
        number: Of its windows in the op's attributes.
        rows: Of what they slide along: operands and results, counted behind these, and their dimensions.
        places: Of what there is one of for each window, likewise.
        windows: The windows.
    """

    number: int
    rows: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int], ...]
    windows: Sliding


@dataclass(frozen=True, slots=True)
class PaddedWindows:
    """The sizes to which the tensors of an op are padded along a dimension along which its windows slide.

    Attributes:
        along: The dimension.
        rows: What the operand's size becomes.
        count: How many windows there are then.
    """

    along: _SlidAlong
    rows: int
    count: int

    @property
    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Tensors of the op, their dimensions, and the sizes of these."""
        yield from ((tensor, dim, self.rows) for tensor, dim in self.along.rows)
        yield from ((tensor, dim, self.count) for tensor, dim in self.along.places)


def padded_windows(op: Op, graph: Graph, shapes: Mapping[int, Shape]) -> tuple[PaddedWindows, ...]:
    """The dimensions along which an op slides windows and is computed padded; of most ops none.

    Arguments:
        op: The op.
        graph: The program that it is in.
        shapes: The shapes of values that are padded.
    """
    if op.name not in (_POOLING, _SCATTERING, _CONVOLUTION):
        return ()
    padded = (_padded(op, graph, shapes, dim) for dim in _dims(op.signature))
    return tuple([one for one in padded if one is not None and _can_be_masked(op.signature, one)])


@memoize
def _dims(signature: Signature) -> tuple[_SlidAlong, ...]:
    if is_given(signature) or not all(type.elements for type in (*signature.operands, *signature.results)):
        return ()
    if signature.name == _CONVOLUTION:
        return tuple(_spatial(signature))
    numbers, result = range(len(signature.results)), len(signature.operands)
    dims: list[_SlidAlong] = []
    for dim, windows in enumerate(pooling(signature)):
        if signature.name == _POOLING and not windows.is_plain:
            places = tuple([(result + number, dim) for number in numbers])
            dims.append(_SlidAlong(dim, tuple([(number, dim) for number in numbers]), places, windows))
        elif signature.name == _SCATTERING and not windows.is_single and windows.is_beside:
            dims.append(_SlidAlong(dim, ((0, dim), (result, dim)), ((1, dim),), windows))
    return tuple(dims)


def _spatial(signature: Signature) -> Iterator[_SlidAlong]:
    """The spatial dimensions that are split along windows."""
    rule = known_rule(signature)
    triples = convolution_dims(signature.text("dimension_numbers") or "").spatial
    for number, (windows, (image, _, out)) in enumerate(zip(convolution_windows(signature), triples, strict=True)):
        if rule is not None and rule.operands[0][image][:1] == rule.results[0][out]:
            yield _SlidAlong(number, ((0, image),), ((2, out),), windows)


def _padded(op: Op, graph: Graph, shapes: Mapping[int, Shape], dim: _SlidAlong) -> PaddedWindows | None:
    """The sizes of a dimension, where some tensor of the op is padded along it."""
    values = (*op.operands, *op.results)
    parts, is_padded = 1, False
    sizes: list[int] = []
    for tensor, number in (*dim.rows, *dim.places):
        value = values[tensor]
        own, sharding = graph.types[value].dims, graph.shardings[value]
        size = shapes.get(value, own)[number]
        is_padded |= size != own[number]
        sizes.append(size)
        if sharding is not None and sharding.rank:  # one on a single device has no dimensions
            parts = max(parts, axes_size(truncate_by_divisor(sharding.axes[number], size)))
    if not is_padded:
        return None
    types = (*op.signature.operands, *op.signature.results)
    own_rows, own_count = (types[tensor].dims[number] for tensor, number in (dim.rows[0], dim.places[0]))
    rows, count = max(sizes[: len(dim.rows)]), max(sizes[len(dim.rows) :])
    if op.name == _SCATTERING:
        count = next_multiple(max(count, ceil_div(own_rows, dim.windows.stride)), parts)
        rows = count * dim.windows.stride
        return PaddedWindows(dim, rows, count) if rows < 2 * own_rows else None
    return PaddedWindows(dim, _shared(rows, own_rows, parts), _shared(count, own_count, parts))


def _shared(size: int, own: int, parts: int) -> int:
    """A size, made one that divides unless most of that would be padding."""
    wider = next_multiple(size, parts)
    return wider if wider < 2 * own else size


# --- what padding holds


def _kind(signature: Signature) -> str | None:
    """The kind by which windows combine, or what is scattered."""
    return signature.bodies[-1].reduction if signature.bodies else "sum"


def _is_seen(signature: Signature, padded: PaddedWindows) -> bool:
    """Whether the op would see padding: of the operand, or of the source that it scatters."""
    windows = padded.along.windows
    types = (*signature.operands, *signature.results)
    rows, count = (types[tensor].dims[dim] for tensor, dim in (padded.along.rows[0], padded.along.places[0]))
    if signature.name == _SCATTERING:
        return padded.count > count and count * windows.stride < rows
    return padded.rows > rows and (count - 1) * windows.stride + windows.reach - windows.low > rows * windows.base


def _can_be_masked(signature: Signature, padded: PaddedWindows) -> bool:
    if not _is_seen(signature, padded):
        return True
    kind = _kind(signature)
    return kind is not None and all(has_identity(kind, type.dtype) for type in signature.results)


def seen_by_windows(signature: Signature, padded: tuple[PaddedWindows, ...]) -> Iterator[Seen]:
    """The padding that an op would see along dimensions that its windows slide along."""
    for one in padded:
        if _is_seen(signature, one):
            masked = one.along.places if signature.name == _SCATTERING else one.along.rows
            yield from (Seen(tensor, (dim,), _kind(signature)) for tensor, dim in masked)


# --- the op


def resized_windows(signature: Signature, padded: tuple[PaddedWindows, ...]) -> Signature:
    """The same op with dimensions that its windows slide along in the sizes given."""
    if not padded:
        return signature
    types = [*signature.operands, *signature.results]
    for one in padded:
        for tensor, dim, size in one.sizes:
            dims = types[tensor].dims
            types[tensor] = types[tensor].with_shape((*dims[:dim], size, *dims[dim + 1 :]))
    count = len(signature.operands)
    made = signature.replace(operands=tuple(types[:count]), results=tuple(types[count:]))
    if signature.name == _SCATTERING:
        return made
    windows = convolution_windows(signature) if signature.name == _CONVOLUTION else pooling(signature)
    padding = [(one.low, one.high) for one in windows]
    for one in padded:
        of = one.along.windows
        behind = (one.count - 1) * of.stride + of.reach - of.low - ((one.rows - 1) * of.base + 1)
        padding[one.along.number] = (of.low, behind)
    return made.replace(padding=i64_tensor(padding))
