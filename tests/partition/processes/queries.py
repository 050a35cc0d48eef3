"""Random instances of the queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shardwright.runtime.arrays import numpy_dtype
from tests.partition.processes import definitions
from tests.partition.processes.definitions import Shape
from tests.partition.processes.instances import DYNAMIC, Instance, Maker, axes_text, i16, i64, maker, split_of


def _scalars(line: str, values: Callable[[int], Sequence[int]], shape: Shape, type: str = "index") -> Instance:
    """A line that defines `%r{n}` with one scalar result or several."""
    rows = {device: list(values(device)) for device in definitions.devices(shape)}
    count = len(rows[0])
    names = ["%r{n}"] if count == 1 else [f"%r{{n}}#{place}" for place in range(count)]
    head = "%r{n}" if count == 1 else f"%r{{n}}:{count}"
    dtype = numpy_dtype("i32" if type == "i32" else "i64")
    results = [
        (name, type, {device: np.array(row[place], dtype) for device, row in rows.items()})
        for place, name in enumerate(names)
    ]
    return Instance([f"{head} = {line} -> ({', '.join([type] * count)})"], results)


@maker("process_multi_index")
def _process_multi_index(m: Maker) -> Instance:
    axes = m.axes()
    selected = f", axes = {i16(axes)}" if axes or m.rng.random() < 0.5 else ""
    listed = axes or list(range(len(m.shape)))

    def values(device: int) -> list[int]:
        return [definitions.multi_index(m.shape, device)[axis] for axis in listed]

    return _scalars(f'"shard.process_multi_index"() {{grid = @g{selected}}} : ()', values, m.shape)


@maker("process_linear_index")
def _process_linear_index(m: Maker) -> Instance:
    return _scalars('"shard.process_linear_index"() {grid = @g} : ()', lambda device: [device], m.shape)


@maker("grid_shape")
def _grid_shape(m: Maker) -> Instance:
    axes = m.axes()
    listed = axes or list(range(len(m.shape)))
    line = f'"shard.grid_shape"() {{grid = @g, axes = {i16(axes)}}} : ()'
    return _scalars(line, lambda device: [m.shape[axis] for axis in listed], m.shape)


@maker("mesh_idx")
def _mesh_idx(m: Maker) -> Instance:
    axis, type = m.rng.randrange(len(m.shape)), m.rng.choice(["index", "i64", "i32"])
    line = f'"mesh.idx"() {{axis = {axis} : index}} : ()'
    return _scalars(line, lambda device: [definitions.multi_index(m.shape, device)[axis]], m.shape, type)


@maker("mesh_size")
def _mesh_size(m: Maker) -> Instance:
    axis, type = m.rng.randrange(len(m.shape)), m.rng.choice(["index", "i64", "i32"])
    return _scalars(f'"mesh.size"() {{axis = {axis} : index}} : ()', lambda device: [m.shape[axis]], m.shape, type)


def _own_index(m: Maker) -> str:
    """Defines `%i{n}#0, …`: where this device stands."""
    rank = len(m.shape)
    return f'%i{{n}}{f":{rank}" if rank > 1 else ""} = "shard.process_multi_index"() {{grid = @g}} : () -> ({", ".join(["index"] * rank)})'


def _index_names(m: Maker) -> list[str]:
    return [f"%i{{n}}#{axis}" for axis in range(len(m.shape))] if len(m.shape) > 1 else ["%i{n}"]


@maker("neighbors_linear_indices")
def _neighbors(m: Maker) -> Instance:
    axes = m.axes(1)

    def values(device: int) -> list[int]:
        return [definitions.neighbour(m.shape, axes, device, step) for step in (-1, 1)]

    types = ", ".join(["index"] * len(m.shape))
    call = f'"shard.neighbors_linear_indices"({", ".join(_index_names(m))}) {{grid = @g, split_axes = {i16(axes)}}}'
    made = _scalars(f"{call} : ({types})", values, m.shape)
    made.lines.insert(0, _own_index(m))
    return made


@maker("shard_shape")
def _shard_shape(m: Maker) -> Instance:
    split = split_of(m, m.rng.randint(1, 3))
    dims = [m.rng.randint(0, 20) for _ in split]
    counts = [m.count(axes) for axes in split if axes]
    offsets = None
    if counts and m.rng.random() < 0.4:
        offsets = [sorted(m.rng.randint(0, 20) for _ in range(count + 1)) for count in counts]
    flat = [offset for section in offsets or () for offset in section]
    sizes, constants, names = m.mixed(dims, "index")
    of_device = [m.rng.random() < 0.7 for _ in m.shape]
    fixed = m.member(range(len(m.shape)))

    def values(device: int) -> list[int]:
        own = definitions.multi_index(m.shape, device)
        index = [mine if dynamic else cuts for mine, cuts, dynamic in zip(own, fixed, of_device, strict=True)]
        return definitions.shard_shape(m.shape, split, dims, offsets, index)

    cuts = f"static_sharded_dims_offsets = {i64(flat)}, operandSegmentSizes = array<i32: 0, 0>"
    lines = [
        _own_index(m),
        f'%s{{n}} = "shard.sharding"() {{grid = @g, split_axes = {axes_text(split)}, {cuts}}} : () -> !shard.sharding',
    ]
    device = [name for name, dynamic in zip(_index_names(m), of_device, strict=True) if dynamic]
    place = [DYNAMIC if dynamic else index for index, dynamic in zip(fixed, of_device, strict=True)]
    segments = f"operandSegmentSizes = array<i32: {len(names)}, 1, {len(device)}>"
    types = ", ".join([*["index"] * len(names), "!shard.sharding", *["index"] * len(device)])
    operands = ", ".join([*names, "%s{n}", *device])
    line = f'"shard.shard_shape"({operands}) {{dims = {i64(sizes)}, device = {i64(place)}, {segments}}} : ({types})'
    made = _scalars(line, values, m.shape)
    made.lines[:0] = [*lines, *constants]
    return made
