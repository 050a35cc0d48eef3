"""StableHLO collectives over mesh axes, on one device's values.

Groups are given in the compact form `#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = […]>`, whose devices XLA
orders by their index along the axes as listed, sub-axes and axes out of mesh order included; so nothing here grows
with the number of devices, except the pairs of a collective permute.

Of values without elements nothing is exchanged: they are made, or stay, where they are.

XLA reduces by sum, product, max and min, and booleans by `and` and `or`. For anything else the contributions are
exchanged and combined on the spot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwright.axes import Axes, axes_size, merge_axes
from shardwright.cost.collectives import combined_by_hand
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i16_array, i64_array, integer
from shardwright.ir.builder import reduction_body, splat
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.notation.names import quoted, symbol_text
from shardwright.partition.localize.local import Local, positions, splat_value
from shardwright.routes import Route
from shardwright.sharding import TensorSharding
from shardwright.steps import AllToAll

__all__ = [
    "dense_groups",
    "local_all_gather",
    "local_all_gathers",
    "local_all_reduce",
    "local_all_slice",
    "local_all_to_all",
    "local_collective_permute",
    "local_exchange",
    "local_reduce_scatter",
    "local_send",
    "paired",
    "permute_pairs",
    "replica_groups",
]

_BOOLEAN = {"sum": "or", "max": "or", "product": "and", "min": "and"}


@memoize
def replica_groups(axes: Axes, mesh: Mesh, partitions: Mesh) -> str:
    """Groups of devices that differ only along `axes`, in the order of their index along them.

    A mesh whose devices are in another order than the program's partitions gets its groups spelled out.
    """
    if mesh.device_ids != partitions.device_ids:
        return dense_groups(axes, mesh, partitions)
    refs = []
    for axis in merge_axes(axes):
        part = "" if mesh.is_full(axis) else f", sub_axis_info = ({axis.pre}){axis.size}"
        refs.append(f"#stablehlo.axis_ref<name = {quoted(axis.name)}{part}>")
    return f"#stablehlo.replica_group_mesh_axes<mesh = {symbol_text(mesh.name)}, axes = [{', '.join(refs)}]>"


def dense_groups(axes: Axes, mesh: Mesh, partitions: Mesh) -> str:
    """The same groups as `replica_groups` gives, partition by partition."""
    groups = _groups(axes, mesh, partitions)
    return f"dense<{groups.tolist()}> : tensor<{groups.shape[0]}x{groups.shape[1]}xi64>"


def _groups(axes: Axes, mesh: Mesh, partitions: Mesh) -> Any:
    """The partitions of every group, a row each, in the order of their index along `axes`."""
    position = positions(mesh, partitions)
    index, rest = np.zeros_like(position), position.copy()
    for stride, size in map(mesh.digit, axes):
        coordinate = position // stride % size
        index = index * size + coordinate
        rest -= coordinate * stride
    return np.lexsort((index, rest)).reshape(-1, axes_size(axes))


def local_all_gather(ctx: Local, value: int, axes: Axes, dim: int, mesh: Mesh | None = None) -> int:
    """The shards along `axes` of dimension `dim`, joined in the order of their index."""
    (gathered,) = local_all_gathers(ctx, (value,), axes, dim, mesh)
    return gathered


def local_all_gathers(ctx: Local, values: Sequence[int], axes: Axes, dim: int, mesh: Mesh | None = None) -> list[int]:
    """The same of several values of one rank, in one collective, whatever their elements are."""
    count = axes_size(axes)
    if count == 1:
        return list(values)
    gathered = [_resized(ctx.type(value), dim, count, 1) for value in values]
    sent = {value: type for value, type in zip(values, gathered, strict=True) if type.elements}
    made: dict[int, int] = {}
    if sent:
        attributes = _grouped(ctx, axes, mesh) | {"all_gather_dim": integer(dim), "use_global_device_ids": "unit"}
        types = tuple(map(ctx.type, sent)), tuple(sent.values())
        signature = Signature("stablehlo.all_gather", tuple(sorted(attributes.items())), *types)
        made = dict(zip(sent, ctx.append(signature, tuple(sent)), strict=True))
    pairs = zip(values, gathered, strict=True)
    return [made[value] if value in made else ctx.constant(0, type) for value, type in pairs]


def local_all_slice(ctx: Local, value: int, axes: list[Axes] | tuple[Axes, ...], mesh: Mesh | None = None) -> int:
    """This device's part of a value cut along `axes[dim]` in every dimension. No communication.

    Of a constant that is one element repeated the part is one too: nobody has to know which.
    """
    shape = ctx.type(value).dims
    sizes = tuple(size // axes_size(cut) for size, cut in zip(shape, axes, strict=True))
    if sizes == shape:
        return value
    element = splat_value(ctx.constants.get(value, ""))
    if element is not None:
        return ctx.append(splat(element, ctx.type(value).with_shape(sizes)), ())[0]
    if ctx.grid and _is_along_a_grid(ctx, axes, mesh):
        return _grid_slice(ctx, value, axes)
    return ctx.dynamic_slice(value, _starts(ctx, sizes, axes, mesh), sizes)


def _is_along_a_grid(ctx: Local, axes: Sequence[Axes], mesh: Mesh | None) -> bool:
    """Whether an axis of the grid is what each axis is: devices that lie in another order are in none."""
    in_order = mesh is None or mesh.device_ids == ctx.mesh.device_ids
    return in_order and all(axis.name in ctx.mesh.sizes and ctx.mesh.is_full(axis) for cut in axes for axis in cut)


def _grid_slice(ctx: Local, value: int, axes: Sequence[Axes]) -> int:
    """The same as the `shard` dialect says it, a dimension after the other."""
    for dim, cut in enumerate(axes):
        if axes_size(cut) > 1:
            type = ctx.type(value)
            shape = tuple(size // axes_size(cut) if n == dim else size for n, size in enumerate(type.dims))
            attributes = (
                ("grid", symbol_text(ctx.mesh.name)),
                ("grid_axes", i16_array([ctx.mesh.order[axis.name] for axis in cut])),
                ("slice_axis", f"{dim} : index"),
            )
            (value,) = ctx.append(
                Signature("shard.all_slice", attributes, (type,), (type.with_shape(shape),)), (value,)
            )
    return value


def local_unslice(ctx: Local, value: int, axes: tuple[Axes, ...], mesh: Mesh | None = None) -> int:
    """What `local_all_slice` cuts along `axes[dim]`, with this device's part in its place and zeros around it."""
    type = ctx.type(value)
    shape = tuple(size * axes_size(cut) for size, cut in zip(type.dims, axes, strict=True))
    if shape == type.dims:
        return value
    whole = ctx.constant(0, TensorType(shape, type.dtype))
    return ctx.emit("dynamic_update_slice", (whole, value, *_starts(ctx, type.dims, axes, mesh)), ctx.type(whole))


def _starts(ctx: Local, sizes: Sequence[int], axes: Sequence[Axes], mesh: Mesh | None) -> list[int]:
    """Where this device's part of `sizes` begins in a value cut along `axes[dim]` in every dimension."""
    wide = any(size * axes_size(cut) >= 1 << 31 for size, cut in zip(sizes, axes, strict=True))
    dtype = "i64" if wide else "i32"
    zero = ctx.constant(0, TensorType((), dtype))
    return [
        zero if axes_size(cut) == 1 else ctx.offset(cut, size, mesh, dtype)
        for size, cut in zip(sizes, axes, strict=True)
    ]


def local_all_to_all(
    ctx: Local, value: int, axes: Axes, source_dim: int, target_dim: int, mesh: Mesh | None = None
) -> int:
    """Join dimension `source_dim` along `axes` and cut `target_dim` along them instead."""
    count = axes_size(axes)
    if count == 1:
        return value
    attributes = _grouped(ctx, axes, mesh) | {
        "split_dimension": integer(target_dim),
        "concat_dimension": integer(source_dim),
        "split_count": integer(count),
    }
    joined = _resized(_resized(ctx.type(value), target_dim, 1, count), source_dim, count, 1)
    return ctx.emit("all_to_all", (value,), joined, attributes) if joined.elements else ctx.constant(0, joined)


def local_exchange(ctx: Local, value: int, step: AllToAll, before: TensorSharding, mesh: Mesh | None = None) -> int:
    """Several all_to_alls at once, of a value that lies as `before` says.

    One collective among the devices along all of the axes: among `n` and `m`, each sends `1 − 1/nm` of what it holds,
    where one after the other it would be `1 − 1/n` and then `1 − 1/m`. What goes to a device is brought together in
    front, and what came from one put where it belongs.
    """
    moves = step.moves
    wide = [number for number, (axes, _, _) in enumerate(moves) if axes_size(axes) > 1]
    if len(wide) < 2:
        for axes, source_dim, target_dim in (moves[number] for number in wide):
            value = local_all_to_all(ctx, value, axes, source_dim, target_dim, mesh)
        return value
    counts = tuple(axes_size(moves[number][0]) for number in wide)
    leaving = [
        [wide.index(number) for number in step.leaving(dim, axes) if number in wide]
        for dim, axes in enumerate(before.axes)
    ]
    joining = [[place for place, number in enumerate(wide) if moves[number][2] == dim] for dim in range(before.rank)]
    value, piece = _stacked(ctx, value, joining, counts)
    value = local_all_to_all(ctx, value, tuple(axis for n in wide for axis in moves[n][0]), 0, 0, mesh)
    return _unstacked(ctx, value, leaving, counts, piece)


def _stacked(ctx: Local, value: int, cut: list[list[int]], counts: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """In front the pieces into which dimensions are cut, by the numbers in `cut` of their `counts`; their shape."""
    cuts = [[counts[number] for number in numbers] for numbers in cut]
    piece = tuple(size // math.prod(of_dim) for size, of_dim in zip(ctx.type(value).dims, cuts, strict=True))
    sizes = [(*of_dim, size) for of_dim, size in zip(cuts, piece, strict=True)]
    numbers = list(itertools.chain(*((*of_dim, len(counts) + dim) for dim, of_dim in enumerate(cut))))
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return _rearranged(ctx, value, tuple(itertools.chain(*sizes)), order, (math.prod(counts), *piece)), piece


def _unstacked(ctx: Local, value: int, joined: list[list[int]], counts: tuple[int, ...], piece: tuple[int, ...]) -> int:
    """The other way: dimensions joined of pieces that stand in front, by the numbers in `joined` of their `counts`."""
    order = itertools.chain(*((*of_dim, len(counts) + dim) for dim, of_dim in enumerate(joined)))
    times = (math.prod([counts[number] for number in of_dim]) for of_dim in joined)
    shape = tuple(size * count for size, count in zip(piece, times, strict=True))
    return _rearranged(ctx, value, (*counts, *piece), tuple(order), shape)


def _rearranged(ctx: Local, value: int, cut: Sequence[int], order: Sequence[int], shape: tuple[int, ...]) -> int:
    """`value` cut into dimensions, these in another order, and joined to `shape`.

    A reshape does it where elements stay in line, and only dimensions of one change places.
    """
    longer = [dim for dim in order if cut[dim] > 1]
    if longer == sorted(longer):
        return ctx.reshape(value, shape)
    return ctx.reshape(ctx.transpose(ctx.reshape(value, tuple(cut)), tuple(order)), shape)


def local_all_reduce(ctx: Local, value: int, axes: Axes, kind: str = "sum", mesh: Mesh | None = None) -> int:
    """The contributions of all devices along `axes`, combined by `kind`.

    Raises:
        ShardingError: a kind other than sum, max, min, product, and, or, xor.
    """
    type = ctx.type(value)
    if axes_size(axes) == 1 or not type.elements:
        return value
    kind, native = _reduction(kind, type.dtype)
    if not native:
        gathered = local_all_gather(ctx, ctx.reshape(value, (1, *type.dims)), axes, 0, mesh)
        return _combine(ctx, gathered, kind)
    attributes = _grouped(ctx, axes, mesh) | {"use_global_device_ids": "unit"}
    return ctx.emit("all_reduce", (value,), type, attributes, (reduction_body(kind, type.dtype),))


def local_reduce_scatter(
    ctx: Local, value: int, axes: Axes, dim: int, kind: str = "sum", mesh: Mesh | None = None
) -> int:
    """The combined contributions along `axes`, each device keeping its part of dimension `dim`.

    Raises:
        ShardingError: a kind other than sum, max, min, product, and, or, xor.
    """
    count = axes_size(axes)
    if count == 1:
        return value
    type = ctx.type(value)
    scattered = _resized(type, dim, 1, count)
    if not scattered.elements:
        return ctx.constant(0, scattered)
    kind, native = _reduction(kind, type.dtype)
    if not native:
        stacked = ctx.reshape(value, (1, *type.dims))
        return _combine(ctx, local_all_to_all(ctx, stacked, axes, 0, dim + 1, mesh), kind)
    attributes = _grouped(ctx, axes, mesh) | {"scatter_dimension": integer(dim), "use_global_device_ids": "unit"}
    body = reduction_body(kind, type.dtype)
    return ctx.emit("reduce_scatter", (value,), scattered, attributes, (body,))


def local_collective_permute(ctx: Local, value: int, source: TensorSharding, target: TensorSharding) -> int:
    """The shard that `target` wants here, of a value that lies as `source` says, sent from a device that has it.

    Raises:
        ShardingError: the two do not cut the dimensions into equally many parts.
    """
    pairs = permute_pairs(source, target, ctx.mesh)
    if not ctx.type(value).elements or bool((pairs[:, 0] == pairs[:, 1]).all()):
        return value
    text = f"dense<{pairs.tolist()}> : tensor<{len(pairs)}x2xi64>"
    attributes = {"source_target_pairs": text, "channel_handle": ctx.channel()}
    return ctx.emit("collective_permute", (value,), ctx.type(value), attributes)


@memoize
def permute_pairs(source: TensorSharding, target: TensorSharding, partitions: Mesh) -> Any:
    """`(sender, receiver)` of every partition, an array of two columns sorted by receiver.

    A device that has what it wants keeps it. The others are matched shard by shard: as many have a shard as want it,
    because both sides cut into equally many parts.
    """
    if [axes_size(a) for a in source.axes] != [axes_size(a) for a in target.axes] or axes_size(
        source.partial_axes
    ) != axes_size(target.partial_axes):
        raise ShardingError(f"no permutation of devices turns {source!r} into {target!r}")
    return paired(_shards(source, partitions), _shards(target, partitions))


def paired(held: Any, needed: Any) -> Any:
    """`(sender, receiver)` of every partition, of which each holds a shard and needs one, by these shards' numbers."""
    sender = np.arange(len(held))
    moved = np.flatnonzero(held != needed)
    senders = moved[np.argsort(held[moved], kind="stable")]
    receivers = moved[np.argsort(needed[moved], kind="stable")]
    sender[receivers] = senders
    return np.stack([sender, np.arange(len(held))], axis=1)


def local_send(ctx: Local, value: int, axes: Axes, routes: Sequence[Route], mesh: Mesh) -> int:
    """What another device in the group along `axes` sends here along one of `routes`, or zeros."""
    type = ctx.type(value)
    if not type.elements:
        return value
    text = _send_pairs(axes, tuple(routes), mesh, ctx.mesh)
    return ctx.emit(
        "collective_permute", (value,), type, {"source_target_pairs": text, "channel_handle": ctx.channel()}
    )


@memoize
def _send_pairs(axes: Axes, routes: tuple[Route, ...], mesh: Mesh, partitions: Mesh) -> str:
    shards = np.concatenate([route.pairs() for route in routes])
    pairs = _groups(axes, mesh, partitions)[:, shards].reshape(-1, 2)
    return f"dense<{pairs.tolist()}> : tensor<{len(pairs)}x2xi64>"


def _shards(sharding: TensorSharding, partitions: Mesh) -> Any:
    """Number of the shard (and contribution) that each partition holds."""
    position = positions(sharding.mesh, partitions)
    index = np.zeros_like(position)
    for stride, size in map(sharding.mesh.digit, (*sharding.used_axes, *sharding.partial_axes)):
        index = index * size + position // stride % size
    return index


def _grouped(ctx: Local, axes: Axes, mesh: Mesh | None) -> dict[str, str]:
    return {"replica_groups": replica_groups(axes, mesh or ctx.mesh, ctx.mesh), "channel_handle": ctx.channel()}


def _reduction(kind: str, dtype: str) -> tuple[str, bool]:
    """The kind as XLA knows it for this element type, and whether its collectives do."""
    if kind not in REDUCTIONS:
        raise ShardingError(
            f"devices cannot combine contributions by {kind!r}", remedy=f"one of {', '.join(REDUCTIONS)}"
        )
    if dtype == "i1":
        kind = _BOOLEAN.get(kind, kind)
    return kind, kind not in combined_by_hand(dtype)


def _combine(ctx: Local, stacked: int, kind: str) -> int:
    """Reduce the first dimension."""
    type = ctx.type(stacked)
    identity = ctx.identity(kind, TensorType((), type.dtype))
    body = reduction_body(kind, type.dtype)
    result = type.with_shape(type.dims[1:])
    return ctx.emit("reduce", (stacked, identity), result, {"dimensions": i64_array([0])}, (body,))


def _resized(type: TensorType, dim: int, times: int, parts: int) -> TensorType:
    """`type` with dimension `dim` multiplied by `times` and divided by `parts`."""
    shape = list(type.dims)
    if shape[dim] * times % parts:
        raise ShardingError(f"dimension {dim} of {type} does not split into {parts} equal parts")
    shape[dim] = shape[dim] * times // parts
    return type.with_shape(tuple(shape))
