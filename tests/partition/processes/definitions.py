"""What collectives and queries of the shard dialect compute, from their definitions: arrays by device, in numpy.

Written from MLIR's shard dialect page, and from what `shardwright.partition.processes` says of the rest; on purpose
without any of the package's own arithmetic. A device is its position in the grid, row-major; `shape` is the grid's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Shape = tuple[int, ...]
Held = dict[int, Any]


def multi_index(shape: Shape, device: int) -> Shape:
    return tuple(int(i) for i in np.unravel_index(device, shape))


def device_at(shape: Shape, index: Sequence[int]) -> int:
    return int(np.ravel_multi_index(tuple(index), shape))


def devices(shape: Shape) -> range:
    return range(int(np.prod(shape)))


def groups(shape: Shape, axes: Sequence[int]) -> Iterator[list[int]]:
    """The members of each group, the last of `axes` fastest."""
    others = [axis for axis in range(len(shape)) if axis not in axes]
    for fixed in itertools.product(*(range(shape[axis]) for axis in others)):
        members = []
        for moving in itertools.product(*(range(shape[axis]) for axis in axes)):
            index = dict(zip(others, fixed, strict=True)) | dict(zip(axes, moving, strict=True))
            members.append(device_at(shape, [index[axis] for axis in range(len(shape))]))
        yield members


def in_groups(shape: Shape, axes: Sequence[int], rule: Callable[[list[Any]], list[Any]], held: Held) -> Held:
    result: Held = {}
    for members in groups(shape, axes):
        result.update(zip(members, rule([held[device] for device in members]), strict=True))
    return result


def number_in_group(shape: Shape, axes: Sequence[int], index: Sequence[int]) -> int:
    return list(itertools.product(*(range(shape[axis]) for axis in axes))).index(tuple(index))


def all_gather(shape: Shape, axes: Sequence[int], dim: int, held: Held) -> Held:
    return in_groups(shape, axes, lambda parts: [np.concatenate(parts, dim)] * len(parts), held)


def all_slice(shape: Shape, axes: Sequence[int], dim: int, held: Held) -> Held:
    def rule(parts: list[Any]) -> list[Any]:
        return [np.split(part, len(parts), dim)[member] for member, part in enumerate(parts)]

    return in_groups(shape, axes, rule, held)


def all_to_all(shape: Shape, axes: Sequence[int], split: int, concat: int, held: Held) -> Held:
    def rule(parts: list[Any]) -> list[Any]:
        pieces = [np.split(part, len(parts), split) for part in parts]
        return [np.concatenate([row[member] for row in pieces], concat) for member in range(len(parts))]

    return in_groups(shape, axes, rule, held)


def broadcast(shape: Shape, axes: Sequence[int], root: Sequence[int], held: Held) -> Held:
    number = number_in_group(shape, axes, root)
    return in_groups(shape, axes, lambda parts: [parts[number]] * len(parts), held)


def scatter(shape: Shape, axes: Sequence[int], dim: int, root: Sequence[int], held: Held) -> Held:
    number = number_in_group(shape, axes, root)
    return in_groups(shape, axes, lambda parts: list(np.split(parts[number], len(parts), dim)), held)


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "average": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def combined(parts: list[Any], kind: str, dtype: Any) -> Any:
    converted = [part.astype(dtype) for part in parts]
    total = converted[0]
    for part in converted[1:]:
        total = COMBINE[kind](total, part).astype(dtype)
    if kind != "average":
        return total
    if dtype.kind in "iu":
        return (np.sign(total) * (np.abs(total) // len(parts))).astype(dtype)
    return (total / np.array(len(parts), dtype)).astype(dtype)


def all_reduce(shape: Shape, axes: Sequence[int], kind: str, dtype: Any, held: Held) -> Held:
    return in_groups(shape, axes, lambda parts: [combined(parts, kind, dtype)] * len(parts), held)


def reduce_scatter(shape: Shape, axes: Sequence[int], dim: int, kind: str, dtype: Any, held: Held) -> Held:
    return in_groups(shape, axes, lambda parts: np.split(combined(parts, kind, dtype), len(parts), dim), held)


def shift(shape: Shape, axis: int, offset: int, rotate: bool, held: Held) -> Held:
    result: Held = {}
    for device in devices(shape):
        index = list(multi_index(shape, device))
        index[axis] -= offset
        if rotate:
            index[axis] %= shape[axis]
        there = 0 <= index[axis] < shape[axis]
        result[device] = held[device_at(shape, index)] if there else np.zeros_like(held[device])
    return result


def send_receive(
    shape: Shape, axes: Sequence[int], source: Sequence[int], destination: Sequence[int], sent: Held, own: Held
) -> Held:
    result = dict(own)
    first, last = number_in_group(shape, axes, source), number_in_group(shape, axes, destination)
    for members in groups(shape, axes):
        result[members[last]] = sent[members[first]]
    return result


def neighbour(shape: Shape, axes: Sequence[int], device: int, step: int) -> int:
    """The device `step` after `device` along `axes` taken together, or -1."""
    members = next(members for members in groups(shape, axes) if device in members)
    number = members.index(device) + step
    return members[number] if 0 <= number < len(members) else -1


def update_halo(shape: Shape, split: Sequence[Sequence[int]], halos: Sequence[tuple[int, int]], held: Held) -> Held:
    """Cell by cell: a halo cell of dimension `d` is its neighbour's own cell, after the dimensions behind `d`.

    `split` and `halos` have an entry a dimension of the tensor.
    """
    now = {device: array.copy() for device, array in held.items()}
    local = held[0].shape
    for dim in reversed(range(len(local))):
        before = {device: array.copy() for device, array in now.items()}
        low, high = halos[dim]
        core = local[dim] - low - high
        for device, cell in itertools.product(now, np.ndindex(*local)):
            early = [low_ <= i < size - high_ for i, size, (low_, high_) in zip(cell, local, halos, strict=True)][:dim]
            step = -1 if cell[dim] < low else 1 if cell[dim] >= low + core else 0
            other = neighbour(shape, split[dim], device, step)
            if step and all(early) and other >= 0:
                there = list(cell)
                there[dim] -= step * core
                now[device][cell] = before[other][tuple(there)]
    return now


def shard_shape(
    shape: Shape,
    split: Sequence[Sequence[int]],
    dims: Sequence[int],
    offsets: Sequence[Sequence[int]] | None,
    index: Sequence[int],
) -> list[int]:
    """Sizes of the shard of the device at `index`; `offsets` has an entry for each split dimension."""
    sections = iter(offsets or ())
    shard = []
    for axes, size in zip(split, dims, strict=True):
        if not axes:
            shard.append(size)
            continue
        count = int(np.prod([shape[axis] for axis in axes]))
        number = number_in_group(shape, axes, [index[axis] for axis in axes])
        if offsets is not None:
            section = next(sections)
            shard.append(section[number + 1] - section[number])
            continue
        small = [size // count] * (count - size % count)
        shard.append((small + [size // count + 1] * (size % count))[number])
    return shard
