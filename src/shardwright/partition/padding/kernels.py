"""Convolutions whose kernel is shared out along a dimension that is padded, as in the gradient of a kernel.

Such a kernel has more elements than there are windows, K of them, padded, and each device has some with the rows that
these meet. What is put behind a kernel would meet rows that are there, for all windows but the last, and 0 times
infinity is no 0. So each window is a convolution of its own, of the rows that its elements take and no other:

    window w                pad low = low - w stride, high = K within - P - low + w stride     of P rows, padded
                            zeros from the row on that the first element of the padding would take
                            convolution of one window
    result                  concatenate of all windows

The pads exchange the rows that cross devices, as many as a convolution of all windows does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from shardwright.axes import axes_size, truncate_by_divisor
from shardwright.ir.attributes import i64_array, i64_tensor, integer
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.shifts import resized
from shardwright.partition.padding.ops import Seen
from shardwright.partition.padding.shifts import moved_rows
from shardwright.partition.padding.sizes import next_multiple
from shardwright.partition.padding.versions import Shape, Versions
from shardwright.rules.convolution import convolution_dims, convolution_windows
from shardwright.rules.registry import is_given, known_rule
from shardwright.rules.sliding import Sliding
from shardwright.sharding import TensorSharding

__all__ = ["PaddedKernel", "by_windows", "padded_kernels", "resized_kernels", "seen_by_kernels"]

_MOST_WINDOWS = 25
"""Of more windows a convolution is not written one by one."""


@dataclass(frozen=True, slots=True)
class _Within:
    """A dimension along which a kernel is split: its numbers in the image, the kernel and the result."""

    number: int
    image: int
    kernel: int
    out: int
    windows: Sliding
    count: int


@dataclass(frozen=True, slots=True)
class PaddedKernel:
    """The sizes to which image and kernel are padded along a dimension that the kernel is shared out along.

    Attributes:
        along: The dimension.
        rows: What the image's size becomes.
        size: What the kernel's does.
    """

    along: _Within
    rows: int
    size: int

    @property
    def sizes(self) -> Iterator[tuple[int, int, int]]:
        """Tensors of the op, their dimensions, and the sizes of these."""
        yield 0, self.along.image, self.rows
        yield 1, self.along.kernel, self.size


def padded_kernels(op: Op, graph: Graph, shapes: Mapping[int, Shape]) -> tuple[PaddedKernel, ...]:
    """The dimensions along which an op is computed window by window; of most ops none.

    Arguments:
        op: The op.
        graph: The program that it is in.
        shapes: The shapes of values that are padded.
    """
    if op.name != "stablehlo.convolution" or graph.shardings[op.results[0]] is None:
        return ()
    padded = (_padded(op, graph, shapes, dim) for dim in _dims(op.signature))
    found = tuple([one for one in padded if one is not None])
    return found if prod([one.along.count for one in found]) <= _MOST_WINDOWS else ()


@memoize
def _dims(signature: Signature) -> tuple[_Within, ...]:
    rule = known_rule(signature)
    if rule is None or is_given(signature) or not signature.results[0].elements:
        return ()
    dims = convolution_dims(signature.text("dimension_numbers") or "").spatial
    turned = signature.get("window_reversal") or (False,) * len(dims)
    found: list[_Within] = []
    for number, (windows, (image, kernel, out)) in enumerate(zip(convolution_windows(signature), dims, strict=True)):
        of = rule.operands[1][kernel]
        if of and rule.operands[0][image][:1] == of and windows.base == 1 and not turned[number]:
            found.append(_Within(number, image, kernel, out, windows, signature.results[0].dims[out]))
    return tuple(found)


def _padded(op: Op, graph: Graph, shapes: Mapping[int, Shape], dim: _Within) -> PaddedKernel | None:
    """The sizes of a dimension, where the image or the kernel is padded along it, and the result is not."""
    parts = 1
    sizes: list[int] = []
    own: list[int] = []
    for value, number in zip((*op.operands, *op.results), (dim.image, dim.kernel, dim.out), strict=True):
        dims, sharding = graph.types[value].dims, graph.shardings[value]
        own.append(dims[number])
        sizes.append(shapes.get(value, dims)[number])
        if sharding is not None and sharding.rank and number != dim.out:
            parts = max(parts, axes_size(truncate_by_divisor(sharding.axes[number], sizes[-1])))
    if sizes[:2] == own[:2] or sizes[2] != own[2]:
        return None
    return PaddedKernel(dim, sizes[0], next_multiple(sizes[1], parts))


def seen_by_kernels(signature: Signature, padded: tuple[PaddedKernel, ...]) -> Iterator[Seen]:
    """The padding of image and kernel that the op would see."""
    for one in padded:
        of = one.along.windows
        if (one.along.count - 1) * of.stride + of.reach - of.low > signature.operands[0].dims[one.along.image]:
            yield Seen(0, (one.along.image,), "sum")
        if one.size > of.size:
            yield Seen(1, (one.along.kernel,), "sum")


def resized_kernels(signature: Signature, padded: tuple[PaddedKernel, ...]) -> Signature:
    """The same op with an image and a kernel of the sizes given."""
    if not padded:
        return signature
    operands = list(signature.operands)
    for one in padded:
        for tensor, dim, size in one.sizes:
            operands[tensor] = resized(operands[tensor], dim, size)
    return signature.replace(operands=tuple(operands))


def by_windows(
    versions: Versions,
    signature: Signature,
    padded: tuple[PaddedKernel, ...],
    operands: Sequence[int],
    sharding: TensorSharding,
) -> int:
    """Write a convolution window by window along some dimensions.

    Arguments:
        versions: What writes the padded program.
        signature: The convolution, with its other dimensions in the sizes that it is computed in.
        padded: The dimensions.
        operands: Image and kernel, padded, and masked where the op would see it.
        sharding: How its result lies.

    Returns:
        The result.
    """
    image, kernel = operands
    made: dict[tuple[int, ...], int] = {}
    for windows in product(*(range(one.along.count) for one in padded)):
        made[windows] = _window(versions, signature, padded, windows, (image, kernel), sharding)
    for depth in reversed(range(len(padded))):
        joined: dict[tuple[int, ...], list[int]] = {}
        for windows, number in made.items():
            joined.setdefault(windows[:depth], []).append(number)
        made = {key: _joined(versions, pieces, padded[depth].along.out, sharding) for key, pieces in joined.items()}
    return made[()]


def _window(
    versions: Versions,
    signature: Signature,
    padded: tuple[PaddedKernel, ...],
    windows: tuple[int, ...],
    operands: tuple[int, int],
    sharding: TensorSharding,
) -> int:
    """The part of a convolution that is one window of each dimension."""
    builder, (image, kernel) = versions.builder, operands
    result = signature.results[0]
    own = convolution_windows(signature)
    padding, strides = [(one.low, one.high) for one in own], [one.stride for one in own]
    for one, window in zip(padded, windows, strict=True):
        of = one.along.windows
        image = _taken(versions, image, one, window)
        padding[one.along.number] = (0, (one.size - 1) * of.within + 1 - one.size * of.within)
        strides[one.along.number] = 1
        result = resized(result, one.along.out, 1)
    types = tuple(map(builder.type, (image, kernel)))
    made = signature.replace(
        operands=types, results=(result,), padding=i64_tensor(padding), window_strides=i64_array(strides)
    )
    return builder.append(made, (image, kernel), (sharding.evenly_dividing(result.dims),))[0]


def _taken(versions: Versions, image: int, padded: PaddedKernel, window: int) -> int:
    """The rows of an image that a window takes from its first on, and zeros where it takes none of its own."""
    builder, dim, of = versions.builder, padded.along.image, padded.along.windows
    shape = resized(builder.type(image), dim, padded.size * of.within).dims
    number = moved_rows(versions, image, {dim: of.low - window * of.stride}, shape, versions.lies(image))
    return number if padded.size == of.size else versions.zeroed(dim, of.reach, number)


def _joined(versions: Versions, pieces: Sequence[int], dim: int, sharding: TensorSharding) -> int:
    """Pieces of one index each, one behind the other along a dimension."""
    if len(pieces) == 1:
        return pieces[0]
    result = resized(versions.builder.type(pieces[0]), dim, len(pieces))
    lies = sharding.evenly_dividing(result.dims)
    return versions.builder.emit("concatenate", pieces, result, {"dimension": integer(dim)}, sharding=lies)
