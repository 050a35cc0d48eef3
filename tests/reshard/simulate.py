"""Executes steps on one numpy array per device, from what the steps say and nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, AxisRef, axes_size, decompose
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Step,
)

Array = NDArray[np.int64]
Shards = dict[int, Array]  # by device id

COMBINE: dict[str, Callable[[Array, Array], Array]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Scene:
    """A tensor of random contributions, and what every device must hold of it under a sharding.

    `parts` are the sub-axes along which the tensor is partial in the source, cut where a target cuts them;
    `contributions` has a dimension for each, before those of the tensor.
    """

    def __init__(self, shape: tuple[int, ...], source: TensorSharding, *others: TensorSharding) -> None:
        cuts = decompose([source.partial_axes, *(other.partial_axes for other in others)])
        self.shape = shape
        self.parts = [(part, p.kind) for p in source.partial for part in cuts[p.axis]]
        sizes = tuple(part.size for part, _ in self.parts)
        self.contributions = np.random.default_rng(len(shape)).integers(-99, 99, (*sizes, *shape))

    def shards(self, sharding: TensorSharding) -> Shards:
        values, staying = self.contributions, list(self.parts)
        for index in reversed(range(len(self.parts))):  # the minor-most is combined first
            part, kind = self.parts[index]
            if not any(axis.contains(part) for axis in sharding.partial_axes):
                values = _combined(list(np.moveaxis(values, index, 0)), kind)
                del staying[index]
        mesh = sharding.mesh
        return {
            mesh.device_id(position): values[tuple(mesh.index((part,), position) for part, _ in staying)][
                sharding.device_slice(self.shape, position)
            ]
            for position in range(mesh.size)
        }


def arrives(shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, steps: Iterable[Step]) -> None:
    """Assert that after `steps` every device holds exactly its part of the target."""
    scene = Scene(shape, source, target)
    shards, layout = scene.shards(source), source
    for step in steps:
        shards = run(step, layout, shards)
        layout = step.apply(layout)
        assert shards[0].shape == layout.local_shape(shape)
    assert layout == target
    for device, expected in scene.shards(target).items():
        np.testing.assert_array_equal(shards[device], expected)


def run(step: Step, before: TensorSharding, shards: Shards) -> Shards:
    """What the devices hold after `step`."""
    if isinstance(step, CollectivePermute):
        permute = _permuted if step.parts(before) == 1 else _permuted_in_parts
        return permute(before, step.target, shards)
    mesh = before.mesh
    held = {position: shards[mesh.device_id(position)] for position in range(mesh.size)}
    if isinstance(step, AllReduce | ReduceScatter):
        axes = step.axes if isinstance(step, AllReduce) else tuple(itertools.chain(*step.axes))
        held = {p: _combined([held[q] for q in _group(mesh, axes, p)], step.kind) for p in held}
    if isinstance(step, AllSlice | ReduceScatter):
        held = {position: _own_part(mesh, step.axes, position, value) for position, value in held.items()}
    if isinstance(step, AllGather):
        held = {position: _gathered(mesh, step.axes, position, held) for position in held}
    if isinstance(step, AllToAll):
        held = {position: _exchanged(before, step, position, held) for position in held}
    return {mesh.device_id(position): value for position, value in held.items()}


def _combined(values: Iterable[Array], kind: str) -> Array:
    first, *rest = values
    for value in rest:
        first = COMBINE[kind](first, value)
    return first


def _group(mesh: Mesh, axes: Axes, position: int) -> list[int]:
    """Positions that differ from `position` along `axes` only, in the order of their index along `axes`."""
    base = position - sum(_digit(mesh, axis, position) * mesh.digit(axis)[0] for axis in axes)
    ranges = [[digit * mesh.digit(axis)[0] for digit in range(axis.size)] for axis in axes]
    return [base + sum(offsets) for offsets in itertools.product(*ranges)]


def _digit(mesh: Mesh, axis: AxisRef, position: int) -> int:
    return mesh.index((axis,), position)


def _own_part(mesh: Mesh, axes: tuple[Axes, ...], position: int, value: Array) -> Array:
    for dim, of_dim in enumerate(axes):
        value = np.split(value, axes_size(of_dim), dim)[mesh.index(of_dim, position)]
    return value


def _gathered(mesh: Mesh, axes: tuple[Axes, ...], position: int, held: Shards) -> Array:
    flat = tuple(itertools.chain(*axes))
    local = held[position].shape
    whole = np.zeros([size * axes_size(of_dim) for size, of_dim in zip(local, axes, strict=True)], np.int64)
    for member in _group(mesh, flat, position):
        starts = [mesh.index(of_dim, member) * size for size, of_dim in zip(local, axes, strict=True)]
        whole[tuple(slice(low, low + size) for low, size in zip(starts, local, strict=True))] = held[member]
    return whole


def _exchanged(before: TensorSharding, step: AllToAll, position: int, held: Shards) -> Array:
    """From every member of the group its part of what this device takes, put where it belongs."""
    mesh = before.mesh
    arriving = [
        tuple(itertools.chain(*(axes for axes, _, to in step.moves if to == dim))) for dim in range(before.rank)
    ]
    counts = [math.prod(axes_size(axes) for axes, of, _ in step.moves if of == dim) for dim in range(before.rank)]
    local = [
        size * count // axes_size(axes)
        for size, count, axes in zip(held[position].shape, counts, arriving, strict=True)
    ]
    whole, places = np.zeros(local, np.int64), set[tuple[int, ...]]()
    for member in _group(mesh, tuple(itertools.chain(*(axes for axes, _, _ in step.moves))), position):
        piece = held[member]
        for dim, axes in enumerate(arriving):
            piece = np.split(piece, axes_size(axes), dim)[mesh.index(axes, position)]
        place = tuple(mesh.index(axes, member) % count for axes, count in zip(before.axes, counts, strict=True))
        assert place not in places
        places.add(place)
        starts = [index * size for index, size in zip(place, piece.shape, strict=True)]
        whole[tuple(slice(low, low + size) for low, size in zip(starts, piece.shape, strict=True))] = piece
    return whole


def _permuted(before: TensorSharding, after: TensorSharding, shards: Shards) -> Shards:
    """The k-th device that shall hold a part gets it from the k-th that does: every device sends once."""
    senders, receivers = _holders(before), _holders(after)
    assert senders.keys() == receivers.keys()
    pairs = [pair for key in senders for pair in zip(senders[key], receivers[key], strict=True)]
    assert len(pairs) == math.prod(size for _, size in before.mesh.axes)
    return {receiver: shards[sender] for sender, receiver in pairs}


def _permuted_in_parts(before: TensorSharding, after: TensorSharding, shards: Shards) -> Shards:
    """Every element that a device shall hold it gets from one that holds it, of the same contribution."""
    mesh, some = before.mesh, next(iter(shards.values()))
    shape = tuple(size * axes_size(axes) for size, axes in zip(some.shape, before.axes, strict=True))
    wholes: dict[int, Array] = {}
    for position in range(mesh.size):
        whole = wholes.setdefault(mesh.index(before.partial_axes, position), np.zeros(shape, np.int64))
        whole[before.device_slice(shape, position)] = shards[mesh.device_id(position)]
    return {
        mesh.device_id(position): wholes[mesh.index(after.partial_axes, position)][after.device_slice(shape, position)]
        for position in range(mesh.size)
    }


def _holders(sharding: TensorSharding) -> dict[tuple[int, ...], list[int]]:
    mesh, holders = sharding.mesh, dict[tuple[int, ...], list[int]]()
    for position in range(mesh.size):
        key = tuple(mesh.index(axes, position) for axes in (*sharding.axes, sharding.partial_axes))
        holders.setdefault(key, []).append(mesh.device_id(position))
    return holders
