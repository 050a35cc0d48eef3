"""Instances at the edges: up to five dimensions, empty ones, many alike, all attributes, element types of every kind.

They are compared with the C++ only; those of `corpus` and `corpus_more` are computed too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from tests.rules.corpus import Instance, Maker, array, binary_body, comparison_body, matrix, tensor

__all__ = ["WIDE", "any_shape", "wide", "wide_instances"]

WIDE: dict[str, Maker] = {}

_SIZES = (0, 1, 1, 2, 3, 4, 4, 6, 8)
_FULL = _SIZES[1:]
_DTYPES = ("f32", "bf16", "f64", "i1", "i4", "ui8", "i32", "complex<f32>", "f8E4M3FN", "f8E5M2", "f4E2M1FN")


def wide_instances(name: str, count: int, seed: int = 0) -> Iterator[Instance]:
    """`count` instances of the ops called `name` in `WIDE`."""
    rng = random.Random(f"wide/{name}/{seed}")
    for _ in range(count):
        yield WIDE[name](rng)


def wide(*names: str) -> Callable[[Callable[[random.Random, str], Instance]], None]:
    def register(function: Callable[[random.Random, str], Instance]) -> None:
        for name in names:
            WIDE[name] = partial(_call, function, name)

    return register


def _call(function: Callable[[random.Random, str], Instance], name: str, rng: random.Random) -> Instance:
    return function(rng, name)


def any_shape(rng: random.Random, least: int = 0, most: int = 5, sizes: Sequence[int] = _SIZES) -> list[int]:
    rank = rng.randint(least, most)
    return [rng.choice(sizes)] * rank if rng.random() < 0.2 else [rng.choice(sizes) for _ in range(rank)]


def _some(rng: random.Random, named: dict[str, list[int]]) -> list[str]:
    """Attributes by name; where all values are 1, which is the default, they may be left out."""
    shown = (name for name, values in named.items() if {*values} != {1} or rng.random() < 0.5)
    return [f"{name} = {array(named[name])}" for name in shown]


@wide("stablehlo.add", "stablehlo.subtract", "stablehlo.multiply")
def _binary(rng: random.Random, name: str) -> Instance:
    type = tensor(
        any_shape(rng), rng.choice([dtype for dtype in _DTYPES if (name, dtype) != ("stablehlo.subtract", "i1")])
    )
    return Instance(name, (type, type), (type,))


@wide("stablehlo.convert")
def _convert(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng)
    return Instance(name, (tensor(shape, rng.choice(_DTYPES)),), (tensor(shape, rng.choice(_DTYPES)),))


@wide("stablehlo.select", "stablehlo.clamp")
def _choose(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng)
    type = tensor(shape, rng.choice(("f32", "i32", "bf16")))
    scalar = tensor([], type.removesuffix(">").rpartition("x")[2] if shape else type[7:-1])
    if name.endswith("clamp"):
        return Instance(name, (rng.choice((scalar, type)), type, rng.choice((scalar, type))), (type,))
    return Instance(name, (tensor(rng.choice(([], shape)), "i1"), type, type), (type,))


@wide("stablehlo.reduce")
def _reduce(rng: random.Random, name: str) -> Instance:
    shape, count, dtype = any_shape(rng), rng.randint(1, 3), rng.choice(("f32", "bf16", "ui8", "complex<f32>", "i1"))
    dims = [dim for dim in range(len(shape)) if rng.random() < 0.5]
    result = tensor([size for dim, size in enumerate(shape) if dim not in dims], dtype)
    operands = (*(tensor(shape, dtype),) * count, *(tensor([], dtype),) * count)
    body = binary_body("or" if dtype == "i1" else "add", dtype, count)
    return Instance(name, operands, (result,) * count, f"dimensions = {array(dims)}", body)


@dataclass(slots=True)
class _Windows:
    """A list of what each dimension has."""

    sizes: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    base: list[int] = field(default_factory=list)
    within: list[int] = field(default_factory=list)
    pads: list[list[int]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


def _windows(rng: random.Random, shape: Sequence[int], dilated: bool) -> _Windows:
    """Random windows over `shape`, at least one in every dimension; the padding may be negative."""
    windows = _Windows()
    for size in shape:
        window, stride = rng.choice((1, 1, 2, 3, size)), rng.choice((1, 1, 2, 3))
        base, within = (rng.choice((1, 1, 2)), rng.choice((1, 1, 2))) if dilated else (1, 1)
        pads = [rng.randint(-1, 3), rng.randint(-1, 3)]
        reach, room = (window - 1) * within + 1, (size - 1) * base + 1
        if room + sum(pads) < reach:
            pads = [reach, reach]
        windows.sizes.append(window)
        windows.strides.append(stride)
        windows.base.append(base)
        windows.within.append(within)
        windows.pads.append(pads)
        windows.counts.append((room + sum(pads) - reach) // stride + 1)
    return windows


@wide("stablehlo.reduce_window")
def _reduce_window(rng: random.Random, name: str) -> Instance:
    shape, count, dtype = any_shape(rng, 1, 5, _FULL), rng.randint(1, 3), rng.choice(("f32", "i32", "complex<f32>"))
    windows = _windows(rng, shape, True)
    optional = {"window_strides": windows.strides, "base_dilations": windows.base, "window_dilations": windows.within}
    padding = [f"padding = {matrix(windows.pads)}"] if any(map(any, windows.pads)) or rng.random() < 0.5 else []
    attributes = ", ".join([f"window_dimensions = {array(windows.sizes)}", *_some(rng, optional), *padding])
    operands = (*(tensor(shape, dtype),) * count, *(tensor([], dtype),) * count)
    results = (tensor(windows.counts, dtype),) * count
    return Instance(name, operands, results, attributes, binary_body("add", dtype, count))


@wide("stablehlo.select_and_scatter")
def _select_and_scatter(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1, 4, _FULL)
    windows = _windows(rng, shape, False)
    sizes, strides = f"window_dimensions = {array(windows.sizes)}", _some(rng, {"window_strides": windows.strides})
    attributes = ", ".join([sizes, *strides, f"padding = {matrix(windows.pads)}"])
    regions = f"({{{comparison_body('GE', ['f32'])}}}, {binary_body('add')[1:]}"
    operands = (tensor(shape), tensor(windows.counts), "tensor<f32>")
    return Instance(name, operands, (tensor(shape),), attributes, regions)


@wide("stablehlo.convolution")
def _convolution(rng: random.Random, name: str) -> Instance:
    groups = rng.choice(((1, 1), (1, 1), (2, 1), (4, 1), (6, 1), (1, 2), (1, 4)))
    batch, features, per_group = rng.choice((0, 1, 2, 4)), rng.choice((1, 1, 3, 8)), rng.choice((1, 2, 3))
    spatial = any_shape(rng, 0, 3, _FULL)
    windows = _windows(rng, spatial, True)
    digits, outputs = [str(index) for index in range(len(spatial))], per_group * prod(groups)
    sides = [
        ({"b": batch * groups[1], "f": features * groups[0]}, spatial),
        ({"i": features, "o": outputs}, windows.sizes),
        ({"b": batch, "f": outputs}, windows.counts),
    ]
    shapes, names = [], []
    for dims, extents in sides:
        named = dims | dict(zip(digits, extents, strict=True))
        order = rng.sample(list(named), len(named))
        shapes.append(tensor([named[dim] for dim in order]))
        names.append(f"[{', '.join(order)}]")
    optional = {"window_strides": windows.strides, "lhs_dilation": windows.base, "rhs_dilation": windows.within}
    parts = [f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>", *_some(rng, optional)]
    if spatial:
        parts.append(f"padding = {matrix(windows.pads)}")
        parts.append(f"window_reversal = array<i1: {', '.join(rng.choice(('true', 'false')) for _ in spatial)}>")
    parts += [f"feature_group_count = {groups[0]} : i64", f"batch_group_count = {groups[1]} : i64"]
    return Instance(name, (shapes[0], shapes[1]), (shapes[2],), ", ".join(parts))


@wide("stablehlo.sort")
def _sort(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1)
    dtypes = ["f32", *(rng.choice(_DTYPES) for _ in range(rng.randint(0, 2)))]
    types = tuple(tensor(shape, dtype) for dtype in dtypes)
    attributes = f"dimension = {rng.randrange(len(shape))} : i64, is_stable = {rng.choice(('true', 'false'))}"
    return Instance(name, types, types, attributes, f"({{{comparison_body('LT', dtypes)}}})")


@wide("stablehlo.pad")
def _pad(rng: random.Random, name: str) -> Instance:
    shape, dtype = any_shape(rng), rng.choice(_DTYPES)
    rows = [(rng.randint(-2, 3), rng.randint(-2, 3), rng.choice((0, 0, 1, 3))) for _ in shape]
    rooms = [size + max(size - 1, 0) * row[2] for size, row in zip(shape, rows, strict=True)]
    rows = [row if room + row[0] + row[1] >= 0 else (0, 0, row[2]) for room, row in zip(rooms, rows, strict=True)]
    result = tensor([room + row[0] + row[1] for room, row in zip(rooms, rows, strict=True)], dtype)
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    attributes = ", ".join(f"{names[column]} = {array([row[column] for row in rows])}" for column in range(3))
    return Instance(name, (tensor(shape, dtype), tensor([], dtype)), (result,), attributes)


@wide("stablehlo.slice")
def _slice(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng)
    rows = [(*sorted((rng.choice((0, rng.randint(0, size))), size)), rng.choice((1, 1, 2, 3))) for size in shape]
    result = tensor([-(-(limit - start) // stride) for start, limit, stride in rows])
    names = ("start_indices", "limit_indices", "strides")
    attributes = ", ".join(f"{names[column]} = {array([row[column] for row in rows])}" for column in range(3))
    return Instance(name, (tensor(shape),), (result,), attributes)


@wide("stablehlo.concatenate")
def _concatenate(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1)
    dim, sizes = rng.randrange(len(shape)), [rng.randint(0, 4) for _ in range(rng.randint(1, 4))]
    parts = [tensor([*shape[:dim], size, *shape[dim + 1 :]]) for size in (*sizes, sum(sizes))]
    return Instance(name, tuple(parts[:-1]), (parts[-1],), f"dimension = {dim} : i64")


@wide("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")
def _dynamic(rng: random.Random, name: str) -> Instance:
    shape = any_shape(rng, 1)
    part = [rng.choice((size, rng.randint(0, size))) for size in shape]
    indices = (tensor([], rng.choice(("i32", "i64", "ui8"))),) * len(shape)
    if name.endswith("update_slice"):
        return Instance(name, (tensor(shape), tensor(part), *indices), (tensor(shape),))
    return Instance(name, (tensor(shape), *indices), (tensor(part),), f"slice_sizes = {array(part)}")


@wide("stablehlo.reshape")
def _reshape(rng: random.Random, name: str) -> Instance:
    elements = rng.choice((1, 2, 4, 6, 8, 12, 16, 24, 36, 60, 64, 72, 144, 210, 360))
    return Instance(name, (tensor(_divided(rng, elements)),), (tensor(_divided(rng, elements)),))


def _divided(rng: random.Random, elements: int) -> list[int]:
    """A shape of so many elements, with ones in between."""
    shape = [1] * rng.choice((0, 0, 1))
    while elements > 1:
        size = rng.choice([size for size in range(1, elements + 1) if elements % size == 0])
        shape.append(size)
        elements //= size
    return shape


_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


@wide("stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.all_to_all")
def _collective(rng: random.Random, name: str) -> Instance:
    """Of several tensors of one shape."""
    shape, count = [2 * size for size in any_shape(rng, 1, 4, _FULL)], rng.randint(1, 3)
    dim, other = rng.randrange(len(shape)), rng.randrange(len(shape))
    result = list(shape)
    attributes, body = _GROUPS, ""
    if name.endswith("all_reduce"):
        body = binary_body("add")
    elif name.endswith("all_gather"):
        result[dim] *= 2
        attributes = f"all_gather_dim = {dim} : i64, {_GROUPS}"
    else:
        result[dim] //= 2
        result[other] *= 2
        attributes = (
            f"split_dimension = {dim} : i64, concat_dimension = {other} : i64, split_count = 2 : i64, {_GROUPS}"
        )
    return Instance(name, (tensor(shape),) * count, (tensor(result),) * count, attributes, body)
