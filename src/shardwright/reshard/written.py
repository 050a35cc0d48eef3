"""Ways to write the same placement: on another mesh, with axes of one device, by permutes in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import AllGather, AllReduce, AllSlice, CollectivePermute, Step

__all__ = ["joined", "on_one_mesh", "renaming", "wide"]


def joined(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Of permutes in a row only the last is needed."""
    kept: list[Step] = []
    for step in steps:
        if kept and isinstance(step, CollectivePermute) and isinstance(kept[-1], CollectivePermute):
            kept.pop()
        kept.append(step)
    return tuple(kept)


def on_one_mesh(source: TensorSharding, target: TensorSharding) -> tuple[TensorSharding, TensorSharding]:
    """Both on the same mesh, if one of them places data alike on both; on this side nothing needs to move."""
    if source.mesh == target.mesh:
        return source, target
    if same_placement(source, replace(source, mesh=target.mesh)):
        return replace(source, mesh=target.mesh), target
    if same_placement(target, replace(target, mesh=source.mesh)):
        return source, replace(target, mesh=source.mesh)
    return source, target


def wide(sharding: TensorSharding) -> TensorSharding:
    """`sharding` without axes of one device."""
    if all(size > 1 for _, size in sharding.mesh.axes):
        return sharding
    axes = [tuple(axis for axis in dim if axis.size > 1) for dim in sharding.axes]
    return sharding.with_axes(axes, (p for p in sharding.partial if p.axis.size > 1)).closed()


def renaming(before: TensorSharding, after: TensorSharding) -> list[Step]:
    """The step between two ways to write the same placement, which differ by axes of one device, or by mesh."""
    if before == after:
        return []
    pairs = tuple(zip(before.axes, after.axes, strict=True))
    gone = [p for p in before.partial if p not in after.partial]
    if before.mesh != after.mesh:
        return [CollectivePermute(after)]
    steps: list[Step] = []
    for p in reversed(gone):
        if any(minor.kind != p.kind for minor in before.partial[before.partial.index(p) :]):
            return [CollectivePermute(after)]
        steps.append(AllReduce((p.axis,), p.kind))
        before = steps[-1].apply(before)
    if all(old == new for old, new in pairs) and before.partial == after.partial:
        return steps
    if before.partial != after.partial:
        return [*steps, CollectivePermute(after)]
    if all(new == old[: len(new)] for old, new in pairs):
        return [*steps, AllGather(tuple(old[len(new) :] for old, new in pairs))]
    if all(old == new[: len(old)] for old, new in pairs):
        return [*steps, AllSlice(tuple(new[len(old) :] for old, new in pairs))]
    return [*steps, CollectivePermute(after)]
