"""`mhlo.sharding` (HloSharding): text ↔ model. Tiles are given to devices by a list (V1) or by counting (V2).

    >>> mesh = Mesh(x=2, y=4)
    >>> parse_sharding("{devices=[4,2]<=[2,4]T(1,0)}", (8, 8), mesh)
    [{y}, {x}]
    >>> print_sharding(TensorSharding.of(mesh, [["y"], []]))
    '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'

*Text → model.* The order of devices is a list of digits `(size, stride)`; along each dimension they are the strides
of sub-axes of the mesh, or no mesh with these axes can express the text, which is then refused: nothing is
approximated. An order that counts is never written out, unless the mesh has an order of its own.

*Model → text.* What propagation may still do is not said by this notation: open dimensions print as closed ones, and
axes kept `replicated` as axes that are not used. Priorities, offsets, halos and kinds other than sum are refused.

Source: StableHLO's "MHLO sharding format"; `HloSharding` of XLA.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np

from shardwright.axes import Axes, AxisRef, axes_size, subtract_axes
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.model import HloSharding, NamedForm
from shardwright.notation.hlo.text import MAX_DIMS, parse_hlo
from shardwright.notation.hlo.tiles import (
    Iota,
    digits_of_list,
    digits_per_dim,
    expand,
    order_size,
)
from shardwright.notation.notation import Notation, Shape
from shardwright.sharding import DimSharding, Partial, TensorSharding, replicated
from shardwright.strides import Digits, axes_of_digits, axis_names
from shardwright.words import counted

__all__ = ["from_hlo", "named_hlo", "parse_hlo", "parse_sharding", "print_sharding", "to_hlo"]


def parse_sharding(text: str, shape: Shape | None = None, mesh: Mesh | None = None) -> TensorSharding:
    """One `mhlo.sharding` of a tensor of `shape` (in elements), over the axes of `mesh`.

    Arguments:
        text: As `{devices=[2,1]0,1}`.
        shape: Needed where the text says nothing of dimensions, as `{replicated}`.
        mesh: Whose axes to use. Without one, a mesh with axes `a`, `b`, … is made of what the text counts by, one
            device for `{replicated}`.

    Raises:
        ShardingError: malformed text, with the column; a sharding that the mesh cannot express; one that the model
            has no notion of, by name: manual, unknown, shard groups, tuples of more than one.
    """
    return from_hlo(parse_hlo(text), shape, mesh)


def print_sharding(sharding: TensorSharding, shape: Shape | None = None) -> str:
    """`{devices=[2,1,4]<=[8] last_tile_dim_replicate}`: the canonical text, as XLA prints it.

    Raises:
        ShardingError: what this notation cannot express, by name.
    """
    sharding.check(shape)
    return str(to_hlo(sharding))


def from_hlo(hlo: HloSharding, shape: Shape | None = None, mesh: Mesh | None = None) -> TensorSharding:
    """The model of what a text says; see `parse_sharding`."""
    if hlo.kind == "tuple" and len(hlo.elements) == 1:
        hlo = hlo.elements[0]
    if hlo.group is not None:
        raise _refusal(hlo, f"{hlo.group[0]} ties tensors together, which is no property of one sharding", "drop it")
    hlo = hlo.canonical()
    if hlo.kind == "tuple":
        raise _refusal(hlo, f"a tuple of {len(hlo.elements)} shardings is not one", "give one of them")
    if hlo.kind in ("manual", "unknown"):
        raise _refusal(hlo, f"{hlo.kind} says of no device what it holds", "give tiles, or {replicated}")
    if hlo.named is not None:
        return _from_named(hlo, hlo.named, shape, mesh)
    if hlo.kind == "maximal":
        return _maximal(hlo, shape, mesh)
    if hlo.kind == "tiled":
        return _from_tiles(hlo, shape, mesh)
    dims = (DimSharding(),) * _rank(hlo, shape)
    if hlo.kind == "replicated":
        return TensorSharding(Mesh() if mesh is None else mesh, dims)
    if mesh is None:
        raise _refusal(hlo, "unreduced does not say over which devices", "give the mesh")
    return TensorSharding(mesh, dims, partial=tuple(Partial(axis) for axis in _all_axes(mesh) if axis.size > 1))


def _refusal(hlo: HloSharding, cause: str, remedy: str) -> ShardingError:
    text = str(hlo)
    shown = text if len(text) <= 200 else text[:200] + "…"
    return ShardingError(f"cannot make a sharding of {shown!r}", cause=cause, remedy=remedy)


def _rank(hlo: HloSharding, shape: Shape | None) -> int:
    if shape is None:
        raise _refusal(hlo, "it does not say how many dimensions the tensor has", "give the shape")
    return len(shape)


def _maximal(hlo: HloSharding, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    own = Mesh(device_ids=[hlo.device])
    if mesh is not None and (not mesh.is_maximal or mesh.device_ids != own.device_ids):
        remedy = f"give no mesh, or the maximal mesh of device {hlo.device}"
        raise _refusal(hlo, f"one device of {mesh!r} has all, the others nothing", remedy)
    return replicated(own if mesh is None else mesh, _rank(hlo, shape))


def _from_named(hlo: HloSharding, form: NamedForm, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """The named form on its own mesh; on another one by way of its tiles."""
    if form.whole == "manual" or form.manual:
        raise _refusal(hlo, "manual axes say of no device what it holds", "give the axes that split the tensor")
    own = form.mesh()
    dims = form.dims if not form.whole else (DimSharding(),) * _rank(hlo, shape)
    partial = form.partial
    if form.whole == "unreduced":
        partial = tuple(Partial(own.axis(name)) for name, _ in own.axes)
    ordered = tuple(sorted(partial, key=lambda p: own.sort_key(p.axis)))
    sharding = TensorSharding(own, dims, own.in_order(form.replicated), ordered)
    sharding.check(shape)
    if mesh is None:
        return sharding
    if (mesh.axes, mesh.device_ids) == (own.axes, own.device_ids):
        return replace(sharding, mesh=mesh)
    return from_hlo(to_hlo(sharding), shape if shape is not None else (1,) * len(dims), mesh)


def _from_tiles(hlo: HloSharding, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """Tiles as axes: for each dimension of tiles its digits, for each digit its sub-axes."""
    rank = len(hlo.data_tile)
    if shape is not None and len(shape) != rank:
        raise _refusal(
            hlo, f"tiles of {counted(rank, 'dimension')} for a tensor of {len(shape)}", "give one per dimension"
        )
    strange = set(hlo.subgroups) - {"unreduced", "replicated"}
    if strange:
        raise _refusal(hlo, f"{min(strange)} subgroups say of no device what it holds", "leave them out")
    if mesh is None:
        mesh = _derived_mesh(hlo)
    if mesh.size != order_size(hlo.order):
        cause = f"it has {order_size(hlo.order)} devices, {mesh!r} has {mesh.size}"
        raise _refusal(hlo, cause, "give a mesh of as many devices")
    digits = _digits(hlo, mesh)
    axes = None if digits is None else [axes_of_digits(dim, mesh) for dim in digits[: _stated(hlo)]]
    if axes is None or None in axes:
        raise _refusal(
            hlo,
            f"no axes or sub-axes of {mesh!r} put these tiles on these devices; it is never approximated",
            "give another mesh, or none to have one made",
        )
    dim_axes: list[Axes] = [dim for dim in axes if dim is not None]
    partial = tuple(Partial(axis) for axis in mesh.in_order(dim_axes[rank])) if len(dim_axes) > rank else ()
    return TensorSharding(mesh, tuple(DimSharding(dim) for dim in dim_axes[:rank]), partial=partial)


def _stated(hlo: HloSharding) -> int:
    """How many dimensions of tiles need axes: all but the replicas, which are what is left."""
    return len(hlo.tile) - (hlo.subgroups[-1:] == ("replicated",))


def _digits(hlo: HloSharding, mesh: Mesh) -> tuple[Digits, ...] | None:
    """Digits of grid positions of `mesh` along each dimension of tiles."""
    if isinstance(hlo.order, Iota) and mesh.device_ids is None:
        return digits_per_dim(hlo.tile, hlo.order.digits())
    devices = expand(hlo.order)
    if int(devices.max()) >= mesh.size:
        return None
    positions = devices
    if mesh.device_ids is not None:
        inverse = np.empty(mesh.size, dtype=np.int64)
        inverse[np.array(mesh.device_ids)] = np.arange(mesh.size)
        positions = inverse[devices]
    tiles, stated = math.prod(hlo.data_tile), math.prod(hlo.tile[: _stated(hlo)])
    grouped = np.sort(positions.reshape(tiles, stated // tiles, -1), axis=2)  # which replica is which is all one,
    rows = np.argsort(grouped[:, :, :1], axis=1)  # and so is which contribution to a sum
    return digits_of_list(hlo.tile, np.take_along_axis(grouped, rows, axis=1))


def _derived_mesh(hlo: HloSharding) -> Mesh:
    """A mesh with an axis per digit, major to minor; with one per dimension and the listed order where none counts."""
    order = hlo.order
    digits = digits_per_dim(hlo.tile, order.digits()) if isinstance(order, Iota) else None
    if not isinstance(order, Iota):
        if max(order) >= len(order):
            raise _refusal(hlo, f"device {max(order)} is not one of {len(order)}", "name devices from 0 on")
        digits = digits_of_list(hlo.tile, expand(order))
    names = axis_names()
    if digits is not None:
        flat = sorted((digit for dim in digits for digit in dim), key=lambda digit: -digit[1])
        return Mesh([(next(names), size) for size, _ in flat])
    sizes = [size for size in hlo.tile if size > 1]
    return Mesh([(next(names), size) for size in sizes], device_ids=[int(device) for device in expand(order)])


def to_hlo(sharding: TensorSharding) -> HloSharding:
    """The canonical `HloSharding` of a sharding; see `print_sharding`."""
    mesh = sharding.mesh
    _check_expressible(sharding)
    if mesh.is_maximal and mesh.device_ids:
        return HloSharding("maximal", device=mesh.device_ids[0])
    partial = mesh.in_order(sharding.partial_axes)
    if mesh.size == 1 or not (axes_size(sharding.used_axes) > 1 or axes_size(partial) > 1):
        return HloSharding("replicated")
    unused = mesh.in_order(subtract_axes(_all_axes(mesh), (*sharding.used_axes, *partial)))
    lists = (*sharding.axes, partial, unused)
    strides = [mesh.digit(axis) for axes in lists for axis in axes]
    order = Iota.of_digits((size, stride) for stride, size in strides)
    tile = tuple(map(axes_size, lists))
    hlo = HloSharding("tiled", tile, order, ("unreduced", "replicated"))
    if mesh.device_ids is not None:
        hlo = replace(hlo, order=tuple(mesh.device_ids[int(position)] for position in expand(order)))
    return hlo.canonical()


def _all_axes(mesh: Mesh) -> Axes:
    return tuple(AxisRef(name, 1, size) for name, size in mesh.axes)


def _check_expressible(sharding: TensorSharding) -> None:
    kinds = {p.kind for p in sharding.partial} - {"sum"}
    what = ""
    if sharding.offsets is not None or sharding.halos is not None:
        what = "offsets or halos"
    elif kinds:
        what = f"a tensor partial by {min(kinds)}"
    elif any(dim.priority is not None for dim in sharding.dims):
        what = "priorities"
    elif sharding.rank > MAX_DIMS - 2:
        what = f"{sharding.rank} dimensions"
    if what:
        shown = repr(sharding)[:200]
        raise ShardingError(f"mhlo.sharding cannot express {what}", cause=f"sharding {shown}")


def named_hlo(sharding: TensorSharding) -> HloSharding:
    """The named form (V3) of a sharding, with its mesh, open dimensions and kinds: `{mesh['a'=2], [{'a', ?}]}`.

    Raises:
        ShardingError: offsets, halos, priorities, too many axes or a quote in the name of one, which it cannot express.
    """
    if sharding.mesh.is_maximal:
        return to_hlo(sharding)
    _check_expressible(replace(sharding, partial=()))
    mesh = sharding.mesh
    if len(mesh.axes) > MAX_DIMS:
        raise ShardingError(f"mhlo.sharding cannot express a mesh of {len(mesh.axes)} axes", remedy="merge some")
    if any("'" in name for name, _ in mesh.axes):
        raise ShardingError(f"mhlo.sharding cannot express the axis names of {mesh!r}", remedy="leave out the quotes")
    form = NamedForm(mesh.axes, mesh.device_ids, "", sharding.dims, sharding.replicated, sharding.partial)
    return HloSharding("named", named=form)


_BEGINNING = re.compile(
    r"\{\s*(\{|\}|replicated|manual|unknown|unreduced|maximal|device=|devices=|last_tile|shard_(as|like)|metadata=|mesh\["
    r"|single_device)"
)

NOTATION = Notation(
    "mhlo",
    "XLA's HloSharding, `mhlo.sharding`, `{devices=[2,1]<=[2]}`",
    lambda text: _BEGINNING.match(text) is not None,
    parse_sharding,
    print_sharding,
)
