"""One mesh for all the `mhlo.sharding`s of a module, where there is one, and each of them over its axes.

Tiles say how devices are counted, not what the axes are called. Each sharding counts along the line of devices by
digits `(size, stride)`; wherever one of them begins or ends, the line is cut, and what lies between two cuts is an
axis. Where cuts do not nest, one axis goes across them, and its parts are used.

    >>> said = ["{devices=[2,4]<=[8]}", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"]
    >>> derive_mesh(map(parse_hlo, said))
    Mesh(a=2, b=4)
    >>> derive_mesh(map(parse_hlo, ["{devices=[2,3]<=[6]}", "{devices=[3,2]<=[6]}"]))
    Mesh(a=6)

Listed devices that do not count are put in an order in which all of them do: sorted by the coordinates that the
shardings give them. That finds the order of every mesh whose axes are used whole; where parts of an axis that do not
nest meet devices in an order of their own, it may find none, and the shardings are refused.

Source: XLA's `TileAssignment`; the `sdy` dialect's MeshAttr.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.sharding import from_hlo, parse_hlo
from shardwright.notation.hlo.tiles import (
    MAX_EXPANDED,
    Iota,
    digits_of_list,
    digits_per_dim,
    expand,
    order_size,
)
from shardwright.sharding import TensorSharding, replicated
from shardwright.strides import Digits, mesh_of_cuts

__all__ = ["Clash", "Placed", "common_mesh", "derive_mesh", "mesh_of_tiles", "parse_hlo", "placed"]

_MAX_LISTED = 1 << 24
"""Most devices, summed over the shardings of a module, that are looked at one by one."""

_MAX_TRIES = 8
"""Most orders of listed devices that are tried."""

_Coordinates = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Clash:
    """Why shardings have no common mesh.

    Attributes:
        first: The number of a sharding that does not go with the others.
        second: The number of one that it contradicts, or `None` where something else does.
        cause: In what.
        remedy: What to change.
        is_of_meshes: Whether each of them has a mesh, and only one for both is missing.
    """

    first: int
    second: int | None
    cause: str
    remedy: str
    is_of_meshes: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """A sharding over the axes of a mesh, and the axes that a manual computation has taken.

    Attributes:
        sharding: Over the axes that are left.
        manual: Axes within whose parts the tensor is one of local shape.
        stated: Whether anything is said of the axes that are left: `{unknown}` and `{manual}` say nothing.
    """

    sharding: TensorSharding
    manual: Axes = ()
    stated: bool = True


def derive_mesh(shardings: Iterable[HloSharding], devices: int | None = None, name: str = "mesh") -> Mesh:
    """The mesh over whose axes all of `shardings` can be said.

    Arguments:
        shardings: As read; tuples count as what they hold.
        devices: How many there are, where that is known otherwise.
        name: What the mesh is called.

    Raises:
        ShardingError: two shardings that no mesh serves both, shown with what to change.
    """
    flat = [
        element.canonical()
        for sharding in shardings
        for element in (sharding.elements if sharding.kind == "tuple" else (sharding,))
    ]
    common = common_mesh(flat, devices, name)
    if isinstance(common, Mesh):
        return common
    others = "the others" if common.second is None else str(flat[common.second])[:200]
    raise ShardingError(
        f"no mesh serves both {str(flat[common.first])[:200]} and {others}", cause=common.cause, remedy=common.remedy
    )


def common_mesh(
    shardings: Sequence[HloSharding], devices: int | None = None, name: str = "mesh", own: Mesh | None = None
) -> Mesh | Clash:
    """The mesh over whose axes all of `shardings` can be said, or what stands in its way.

    Arguments:
        shardings: In canonical form, no tuples.
        devices: How many there are, where that is known otherwise.
        name: What the mesh is called.
        own: The mesh to be used, where there is one already.

    Raises:
        ShardingError: more devices in lists than are looked at one by one.
    """
    counts = [(number, count) for number, hlo in enumerate(shardings) if (count := _devices(hlo)) is not None]
    if devices is None and own is not None:
        devices = own.size
    clash = _count_clash(shardings, counts, devices)
    if clash is not None:
        return clash
    named = [(number, hlo.named) for number, hlo in enumerate(shardings) if hlo.named is not None and hlo.named.axes]
    tiled = [number for number, hlo in enumerate(shardings) if hlo.kind == "tiled"]
    if own is None and not named:
        manual = any(hlo.kind == "manual" for hlo in shardings)
        size = counts[0][1] if counts else devices if devices is not None or not manual else 1
        return _derived(shardings, tiled, size, name)
    meshes = [(number, form.mesh()) for number, form in named]
    mesh = own if own is not None else Mesh(meshes[0][1].axes, device_ids=meshes[0][1].device_ids, name=name)
    for number, other in meshes:
        if (other.axes, other.device_ids) != (mesh.axes, mesh.device_ids):
            cause = f"one has {other!r}, the other {mesh!r}"
            return Clash(number, None if own is not None else meshes[0][0], cause, "name one mesh in both")
    for number in tiled:
        try:
            placed(shardings[number], len(shardings[number].data_tile), mesh)
        except ShardingError as error:
            second = None if own is not None else meshes[0][0]
            return Clash(number, second, error.diagnostic.cause, f"tile by the axes of {mesh!r}")
    return mesh


def _devices(hlo: HloSharding) -> int | None:
    """How many devices a sharding says there are, if it does."""
    if hlo.kind == "tiled":
        return order_size(hlo.order)
    if hlo.named is not None and hlo.named.axes:
        return Mesh(hlo.named.axes).size
    return None


def _count_clash(
    shardings: Sequence[HloSharding], counts: Sequence[tuple[int, int]], devices: int | None
) -> Clash | None:
    remedy = "lay every tensor of the module over the same devices, as many as mhlo.num_partitions says"
    for number, count in counts:
        if devices is not None and count != devices:
            return Clash(number, None, f"it is for {count} devices, the module for {devices}", remedy, False)
        if count != counts[0][1]:
            cause = f"one is for {count} devices, the other for {counts[0][1]}"
            return Clash(number, counts[0][0], cause, remedy, False)
    known = devices if devices is not None else counts[0][1] if counts else None
    for number, hlo in enumerate(shardings):
        highest = -1
        if hlo.kind == "maximal":
            highest = hlo.device
        elif hlo.kind == "tiled" and not isinstance(hlo.order, Iota):
            highest = max(hlo.order)
        if known is not None and highest >= known:
            remedy = f"name devices from 0 to {known - 1}"
            return Clash(number, None, f"device {highest} is not one of {known}", remedy, False)
    return None


def _derived(shardings: Sequence[HloSharding], tiled: Sequence[int], size: int | None, name: str) -> Mesh | Clash:
    """The mesh of tiles alone."""
    if size is None or size == 1:
        return Mesh([("a", 1)] if size == 1 else (), name=name)
    mesh = mesh_of_tiles([shardings[number] for number in tiled], size, name)
    if mesh is not None:
        return mesh
    low, high = 1, len(tiled)  # fewer shardings never fit worse: the first prefix that fails ends in the culprit
    while low < high:
        middle = (low + high) // 2
        fits = mesh_of_tiles([shardings[number] for number in tiled[:middle]], size, name) is not None
        low, high = (middle + 1, high) if fits else (low, middle)
    culprit = tiled[low - 1]
    pairs = (
        number
        for number in tiled[: low - 1]
        if mesh_of_tiles([shardings[number], shardings[culprit]], size, name) is None
    )
    cause = f"no order of the {size} devices was found in which both count by the axes of one mesh"
    return Clash(
        culprit, next(pairs, None), cause, "tile both by the axes of one mesh, or name it: {mesh['x'=2,'y'=4], …}"
    )


def mesh_of_tiles(tiled: Sequence[HloSharding], size: int, name: str = "mesh") -> Mesh | None:
    """The mesh of so many devices in order, else in an order in which all of `tiled`, in canonical form, count; `None`
    where none was found.

    Raises:
        ShardingError: more devices in lists than are looked at one by one.
    """
    cuts = {1, size}
    for hlo in tiled:
        digits = _digits_in_order(hlo)
        if digits is None:
            return _permuted(tiled, size, name)
        cuts.update(cut for count, stride in digits for cut in (stride, count * stride))
    return mesh_of_cuts(cuts, None, name)


def _stated(hlo: HloSharding) -> int:
    """How many dimensions of tiles tell devices apart: all but the replicas."""
    return len(hlo.tile) - (hlo.subgroups[-1:] == ("replicated",))


def _digits_in_order(hlo: HloSharding) -> Digits | None:
    """The digits of all dimensions that tell devices apart, devices in order."""
    if isinstance(hlo.order, Iota):
        per_dim = digits_per_dim(hlo.tile, hlo.order.digits())
        return None if per_dim is None else tuple(itertools.chain(*per_dim[: _stated(hlo)]))
    positions = np.arange(len(hlo.order), dtype=np.int64)
    return _digits_over(hlo, positions)


def _digits_over(hlo: HloSharding, positions: _Coordinates) -> Digits | None:
    """The same with the device `d` at `positions[d]`."""
    all_digits: list[tuple[int, int]] = []
    for size, coordinates in _coordinates(hlo):
        at = np.empty_like(coordinates)
        at[positions] = coordinates
        digits = digits_of_list((size,), np.unique(at, return_index=True)[1])
        if digits is None:
            return None
        value = np.zeros_like(at)
        for count, stride in digits[0]:
            value = value * count + np.arange(len(at)) // stride % count
        if not np.array_equal(value, at):
            return None
        all_digits += digits[0]
    return tuple(all_digits)


def _coordinates(hlo: HloSharding) -> Iterable[tuple[int, _Coordinates]]:
    """Of every dimension that tells devices apart: its size, and the coordinate of each device along it."""
    devices = expand(hlo.order)
    tile = np.empty_like(devices)
    tile[devices] = np.arange(len(devices))
    rest = len(devices)
    for size in hlo.tile[: _stated(hlo)]:
        rest //= size
        if size > 1:
            yield size, tile // rest % size


def _permuted(tiled: Sequence[HloSharding], size: int, name: str) -> Mesh | None:
    """The mesh whose devices are sorted by the coordinates that `tiled` gives them, in turn, whichever comes first."""
    if size > MAX_EXPANDED or len(tiled) * size > _MAX_LISTED:
        raise ShardingError(
            f"{len(tiled)} shardings of {size} devices would have to be written out as lists",
            cause=f"their orders of devices do not count, and lists are limited to {_MAX_LISTED} devices in all",
            remedy="tile by the axes of one mesh",
        )
    for first in range(min(len(tiled), _MAX_TRIES)):
        mesh = _sorted_by((*tiled[first:], *tiled[:first]), size, name)
        if mesh is not None:
            return mesh
    return None


def _sorted_by(tiled: Sequence[HloSharding], size: int, name: str) -> Mesh | None:
    rank = np.zeros(size, dtype=np.int64)
    groups = 1
    for hlo in tiled:
        for count, coordinates in _coordinates(hlo):
            if groups < size:
                values, rank = np.unique(rank * count + coordinates, return_inverse=True)
                groups = len(values)
    order = np.argsort(rank, kind="stable")
    positions = np.empty(size, dtype=np.int64)
    positions[order] = np.arange(size)
    cuts = {1, size}
    for hlo in tiled:
        digits = _digits_over(hlo, positions)
        if digits is None:
            return None
        cuts.update(cut for count, stride in digits for cut in (stride, count * stride))
    return mesh_of_cuts(cuts, [int(device) for device in order], name)


def placed(hlo: HloSharding, rank: int, mesh: Mesh) -> Placed:
    """`hlo`, in canonical form, of a tensor of `rank` dimensions, over the axes of `mesh`.

    Raises:
        ShardingError: a rank that contradicts the text, or tiles that the mesh cannot express.
    """
    hlo = replace(hlo, group=None, metadata="")
    shape = (1,) * rank
    if hlo.kind == "unknown":
        return Placed(replicated(mesh, rank, True), stated=False)
    if hlo.kind == "manual" or (hlo.named is not None and hlo.named.whole == "manual"):
        return Placed(replicated(mesh, rank, True), _all_axes(mesh), stated=False)
    if hlo.kind == "maximal":
        alone = Mesh(device_ids=[hlo.device], name=f"maximal_mesh_{hlo.device}")
        return Placed(TensorSharding(alone, ()))  # of rank 0 whatever the tensor's rank: sdy has it so
    if hlo.named is not None:
        form = replace(hlo.named, manual=())
        if not form.axes:
            return Placed(replicated(mesh, rank))
        return _partly_manual(from_hlo(replace(hlo, named=form), shape, mesh), mesh.in_order(hlo.named.manual))
    if "manual" not in hlo.subgroups:
        return Placed(from_hlo(hlo, shape, mesh))
    taken = from_hlo(_relabelled(hlo, {"manual": "unreduced", "unreduced": "replicated"}), shape, mesh)
    return _partly_manual(from_hlo(_relabelled(hlo, {"manual": "replicated"}), shape, mesh), taken.partial_axes)


def _partly_manual(sharding: TensorSharding, manual: Axes) -> Placed:
    return Placed(sharding, manual, stated=axes_size(manual) < sharding.mesh.size or not manual)


def _relabelled(hlo: HloSharding, types: dict[str, str]) -> HloSharding:
    return replace(hlo, subgroups=tuple(types.get(of, of) for of in hlo.subgroups))


def _all_axes(mesh: Mesh) -> Axes:
    return tuple(AxisRef(name, 1, size) for name, size in mesh.axes)
