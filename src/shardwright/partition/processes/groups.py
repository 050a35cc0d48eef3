"""Moving values within groups of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwright.axes import Axes, axes_size
from shardwright.ir.attributes import i64_array
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local, positions

__all__ = ["part", "permute", "shift_pairs", "step_targets"]


def permute(ctx: Local, value: int, mesh: Mesh, axes: Axes, targets: Sequence[int]) -> int:
    """What another member of the group along `axes` sends here, zeros where none does.

    Arguments:
        ctx: The builder.
        value: What this device sends.
        mesh: The grid.
        axes: Axes of the groups, outer to inner.
        targets: For each member of a group the member that it sends to, or -1; none is sent to twice.
    """
    pairs = _pairs(mesh, axes, tuple(targets), ctx.mesh)
    if not len(pairs):
        return ctx.constant(0, ctx.type(value))
    text = f"dense<{pairs.tolist()}> : tensor<{len(pairs)}x2xi64>"
    attributes = {"source_target_pairs": text, "channel_handle": ctx.channel()}
    return ctx.emit("collective_permute", (value,), ctx.type(value), attributes)


@memoize
def _pairs(mesh: Mesh, axes: Axes, targets: tuple[int, ...], partitions: Mesh) -> Any:
    """`(source, target)` partitions, an array of two columns."""
    position = positions(mesh, partitions)
    digits = [mesh.digit(axis) for axis in axes]
    index = np.zeros_like(position)
    for stride, size in digits:
        index = index * size + position // stride % size
    target = np.array(targets)[index]
    rest, moved = target.copy(), position.copy()
    for stride, size in reversed(digits):
        moved += (rest % size - position // stride % size) * stride
        rest //= size
    partition = np.argsort(position)
    pairs = np.stack([np.arange(len(position)), partition[np.clip(moved, 0, len(position) - 1)]], axis=1)
    return pairs[target >= 0]


def shift_pairs(mesh: Mesh, axes: Axes, offset: int, rotate: bool) -> set[tuple[int, ...]]:
    """The `(source, target)` devices of a shift along axes, devices counted in the order of the mesh."""
    pairs = _pairs(mesh, axes, tuple(step_targets(axes_size(axes), offset, rotate)), mesh)
    return {(int(source), int(target)) for source, target in pairs}


def step_targets(count: int, offset: int, rotate: bool = False) -> list[int]:
    """Targets of `permute` that move every value up by `offset` members of `count`, round the end or over it."""
    if rotate:
        return [(member + offset) % count for member in range(count)]
    return [member + offset if 0 <= member + offset < count else -1 for member in range(count)]


def part(ctx: Local, value: int, starts: Sequence[int], sizes: Sequence[int]) -> int:
    """A block of a value, `sizes` wide, that begins at `starts`."""
    attributes = {
        "start_indices": i64_array(starts),
        "limit_indices": i64_array(start + size for start, size in zip(starts, sizes, strict=True)),
        "strides": i64_array([1] * len(sizes)),
    }
    return ctx.emit("slice", (value,), ctx.type(value).with_shape(tuple(sizes)), attributes)
