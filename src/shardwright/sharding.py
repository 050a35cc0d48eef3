"""The one sharding model: how a tensor lies on a mesh.

Each dimension lists the axes that split it, major to minor; a tensor may also be *partial* (unreduced) along axes:
each device then holds a contribution, to be combined by the reduction kind given. A dimension of size `n` split `k`
ways gives every device a slice of `ceil(n / k)`, the last ones clamped.

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(data=2, model=4)
    >>> s = TensorSharding.of(mesh, [["data"], ["model"]])
    >>> s.local_shape((8, 16)), s.device_slice((8, 16), 5)
    ((4, 4), (slice(4, 8, None), slice(4, 8, None)))

Source: the `sdy` dialect's TensorShardingAttr; kinds, offsets and halos from upstream MLIR's `mesh` dialect.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from shardwright.axes import Axes, AxisRef, axes_size, can_coexist, merge_axes, truncate_by_divisor
from shardwright.errors import ShardingError
from shardwright.lazy import provided
from shardwright.memo import Hashed, memoize, once
from shardwright.mesh import Mesh
from shardwright.words import counted

__all__ = [
    "REDUCTION_KINDS",
    "DimSharding",
    "Partial",
    "TensorSharding",
    "interned",
    "replicated",
    "same_grid",
    "same_placement",
    "without_idle",
]

REDUCTION_KINDS = ("sum", "max", "min", "product", "and", "or", "xor", "average", "generic")
"""How contributions of a partial tensor combine."""

_SHOWN = 16
"""Offsets of one dimension that are written out in a `repr`."""


@dataclass(frozen=True, slots=True)
class DimSharding:
    """How one dimension is split: by `axes`, major to minor; `open` dimensions may be split further by propagation.

    `priority` orders propagation (0 first); `None` is 0 unsaid.
    """

    axes: Axes = ()
    open: bool = False
    priority: int | None = None

    def closed(self) -> DimSharding:
        """The same axes, neighbouring parts merged, with no more to come and no priority."""
        axes = merge_axes(self.axes)
        return self if axes == self.axes and not self.open and self.priority is None else DimSharding(axes)


@dataclass(frozen=True, slots=True)
class Partial:
    """One axis along which devices hold contributions, to be combined by `kind`."""

    axis: AxisRef
    kind: str = "sum"


def _merge_partial(partial: tuple[Partial, ...]) -> tuple[Partial, ...]:
    """Neighbouring parts of one axis that await the same kind of reduction made one."""
    if len(partial) < 2:
        return partial
    merged = [partial[0]]
    for p in partial[1:]:
        last = merged[-1]
        if last.kind == p.kind and last.axis.joins(p.axis):
            merged[-1] = Partial(AxisRef(p.axis.name, last.axis.pre, last.axis.size * p.axis.size), p.kind)
        else:
            merged.append(p)
    return tuple(merged)


def _repr_bounds(what: str, entries: tuple[tuple[int, ...] | None, ...] | None) -> str:
    """Offsets or halos of the dimensions that have them, long ones cut short."""

    def row(values: tuple[int, ...]) -> str:
        shown = ", ".join(map(str, values[:_SHOWN]))
        return f"[{shown}, …]" if len(values) > _SHOWN else f"[{shown}]"

    rows = [f"{dim}: {row(values)}" for dim, values in enumerate(entries or ()) if values is not None]
    return f" {what}={{{', '.join(rows)}}}" if rows else ""


@dataclass(frozen=True, eq=False)
class TensorSharding(Hashed):
    """How a tensor lies on a mesh. Frozen, compared by value, the hash computed once.

    Attributes:
        mesh: The mesh.
        dims: One `DimSharding` per dimension.
        replicated: Axes along which propagation must not split this tensor, in mesh order.
        partial: Axes along which the tensor awaits reduction, in mesh order, each with its kind.
        offsets: Per dimension, the start of every shard and the end of the last, or `None` where even (ceil).
        halos: Per dimension, `(before, after)` elements of the neighbours that a shard carries, or `None`.
    """

    mesh: Mesh
    dims: tuple[DimSharding, ...]
    replicated: Axes = ()
    partial: tuple[Partial, ...] = ()
    offsets: tuple[tuple[int, ...] | None, ...] | None = None
    halos: tuple[tuple[int, int] | None, ...] | None = None

    @classmethod
    def of(
        cls,
        mesh: Mesh,
        dims: Sequence[Iterable[str | AxisRef]],
        *,
        open: bool = False,
        partial: Iterable[str | AxisRef] = (),
        kind: str = "sum",
    ) -> TensorSharding:
        """A sharding from axis names per dimension, all dimensions open or all closed."""

        def refs(axes: Iterable[str | AxisRef]) -> Axes:
            return tuple(mesh.axis(axis) if isinstance(axis, str) else axis for axis in axes)

        return cls(
            mesh,
            tuple(DimSharding(refs(axes), open) for axes in dims),
            partial=tuple(Partial(axis, kind) for axis in mesh.in_order(refs(partial))),
        )

    def __repr__(self) -> str:
        """Compact text: `[{data}, {model, ?}] partial=sum{…}`; offsets and halos by dimension.

        >>> replace(TensorSharding.of(Mesh(x=2), [["x"], []]), offsets=((0, 3, 8), None))
        [{x}, {}] offsets={0: [0, 3, 8]}
        """
        axis = self.mesh.axis_text

        def dim(d: DimSharding) -> str:
            inner = ", ".join([*map(axis, d.axes), *(["?"] if d.open else [])])
            return f"{{{inner}}}" + (f"p{d.priority}" if d.priority is not None else "")

        text = f"[{', '.join(map(dim, self.dims))}]"
        if self.replicated:
            text += f" replicated={{{', '.join(map(axis, self.replicated))}}}"
        for kind in dict.fromkeys(p.kind for p in self.partial):
            text += f" partial={kind}{{{', '.join(axis(p.axis) for p in self.partial if p.kind == kind)}}}"
        return text + _repr_bounds("offsets", self.offsets) + _repr_bounds("halos", self.halos)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @once
    def axes(self) -> tuple[Axes, ...]:
        """The axes of every dimension."""
        return tuple([dim.axes for dim in self.dims])

    @once
    def used_axes(self) -> Axes:
        """All axes that split a dimension, dimension by dimension."""
        return tuple(axis for dim in self.dims for axis in dim.axes)

    @once
    def shards(self) -> int:
        """Into how many parts its dimensions split the tensor."""
        return axes_size(self.used_axes)

    @property
    def partial_axes(self) -> Axes:
        """All axes along which the tensor is partial."""
        return tuple(p.axis for p in self.partial)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole, reduced tensor."""
        return not self.partial and not any(dim.axes for dim in self.dims)

    def local_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape each device holds, in elements: `ceil(size / shards)` per dimension, plus halos.

        With explicit offsets shards differ; this is then the largest.
        """
        if self.offsets is None and self.halos is None:
            sizes = zip(shape, self.dims, strict=True)
            return tuple([-(-size // axes_size(dim.axes)) if dim.axes else size for size, dim in sizes])
        local: list[int] = []
        for index, (size, dim) in enumerate(zip(shape, self.dims, strict=True)):
            offsets = self.offsets[index] if self.offsets else None
            if offsets is not None:
                length = max(high - low for low, high in itertools.pairwise(offsets))
            else:
                length = -(-size // axes_size(dim.axes))
            halo = self.halos[index] if self.halos else None
            local.append(length + (sum(halo) if halo else 0))
        return tuple(local)

    def device_slice(self, shape: Sequence[int], position: int) -> tuple[slice, ...]:
        """Which part of a tensor of `shape` the device at grid position `position` holds, halos left out.

        Shards past the end of an uneven dimension are empty slices at its end.
        """
        slices: list[slice] = []
        for index, (size, dim) in enumerate(zip(shape, self.dims, strict=True)):
            shard = self.mesh.index(dim.axes, position)
            offsets = self.offsets[index] if self.offsets else None
            if offsets is not None:
                slices.append(slice(offsets[shard], offsets[shard + 1]))
                continue
            length = -(-size // axes_size(dim.axes))
            slices.append(slice(min(shard * length, size), min((shard + 1) * length, size)))
        return tuple(slices)

    def divides(self, shape: Sequence[int]) -> bool:
        """Whether every dimension of `shape` splits evenly."""
        sizes = zip(shape, self.dims, strict=True)
        return all(size % axes_size(dim.axes) == 0 for size, dim in sizes if dim.axes)

    def evenly_dividing(self, shape: Sequence[int]) -> TensorSharding:
        """The longest major part of each dimension's axes that divides `shape`; may end in sub-axes.

        What lies on one device alone, of which dimensions say nothing, is not split. Offsets cut any dimension.
        """
        if self.mesh.is_maximal:
            return self
        dims = tuple(
            dim if size % axes_size(dim.axes) == 0 else replace(dim, axes=truncate_by_divisor(dim.axes, size))
            for size, dim in zip(shape, self.dims, strict=True)
        )
        if self.offsets is not None:
            kept = zip(self.dims, dims, self.offsets, strict=True)
            dims = tuple([dim if cuts is None else own for own, dim, cuts in kept])
        return self if dims == self.dims else replace(self, dims=dims)

    def closed(self) -> TensorSharding:
        """The layout alone: all dimensions closed, no priorities, no `replicated`, neighbouring parts merged."""
        if self.is_closed:
            return self
        dims = tuple([dim.closed() for dim in self.dims])
        return replace(self, dims=dims, partial=_merge_partial(self.partial), replicated=())

    @once
    def is_closed(self) -> bool:
        """Whether this is a layout alone: see `closed`."""
        if self.replicated or _merge_partial(self.partial) != self.partial:
            return False
        return all(dim.closed() is dim for dim in self.dims)

    def with_axes(self, axes: Sequence[Axes], partial: Iterable[Partial] = ()) -> TensorSharding:
        """A closed sharding on the same mesh with other axes and partials."""
        ordered = tuple(sorted(partial, key=lambda p: self.mesh.sort_key(p.axis)))
        return interned(TensorSharding(self.mesh, tuple([DimSharding(tuple(a)) for a in axes]), partial=ordered))

    def equivalent(self, other: TensorSharding) -> bool:
        """Whether both lay every element on the same devices in the same state."""
        return self is other or self == other or (self.mesh == other.mesh and self.closed() == other.closed())

    def check(self, shape: Sequence[int] | None = None) -> None:
        """Check that this is a valid sharding (of a tensor of `shape`, where given).

        Raises:
            ShardingError: naming the axis or dimension at fault.
        """
        if shape is not None and len(shape) != self.rank:
            raise ShardingError(
                f"a sharding of {counted(self.rank, 'dimension')} is given to a tensor of {len(shape)}",
                cause=f"sharding {self!r}, shape {'x'.join(map(str, shape)) or 'scalar'}",
                remedy="give one entry per dimension",
            )
        seen: list[AxisRef] = []
        for axis in (*self.used_axes, *self.replicated, *self.partial_axes):
            self.mesh.axis(axis.name, axis.pre, axis.size)
            for other in seen:
                if axis.overlaps(other):
                    raise ShardingError(
                        f"mesh axis {axis.name!r} is used twice in {self!r}",
                        remedy="an axis may split one dimension, or be replicated, or be partial, once",
                    )
                if not can_coexist(axis, other):
                    raise ShardingError(
                        f"sub-axes of {axis.name!r} cannot be used together in {self!r}",
                        cause="no one split of the axis has both as parts",
                        remedy="let every pre-size divide the larger ones",
                    )
            seen.append(axis)
        for p in self.partial:
            if p.kind not in REDUCTION_KINDS:
                raise ShardingError(f"unknown reduction kind {p.kind!r}", remedy=f"one of {', '.join(REDUCTION_KINDS)}")
        self._check_boundaries(shape)

    def _check_boundaries(self, shape: Sequence[int] | None) -> None:
        if self.offsets is not None and self.halos is not None:
            raise ShardingError("a sharding has offsets and halos", remedy="give one of the two")
        for what, entries in (("offsets", self.offsets), ("halos", self.halos)):
            if entries is not None and len(entries) != self.rank:
                raise ShardingError(f"{what} are given for {len(entries)} dimensions of {self.rank}")
        for index, offsets in enumerate(self.offsets or ()):
            if offsets is None:
                continue
            shards = axes_size(self.dims[index].axes)
            rising = all(low <= high for low, high in itertools.pairwise(offsets))
            if len(offsets) != shards + 1 or not rising or offsets[0] != 0:
                raise ShardingError(
                    f"offsets {list(offsets)} of dimension {index} do not cut it into {shards} shards",
                    remedy=f"give {shards + 1} values from 0, none smaller than the one before",
                )
            if shape is not None and offsets[-1] != shape[index]:
                raise ShardingError(f"offsets of dimension {index} end at {offsets[-1]}, its size is {shape[index]}")
        for index, halo in enumerate(self.halos or ()):
            if halo is not None and (min(halo) < 0 or not self.dims[index].axes):
                raise ShardingError(f"halo {halo} of dimension {index} is negative or its dimension is not split")

    def to(self, notation: str, shape: Sequence[int] | None = None) -> str:
        """This sharding, of a tensor of `shape`, in the notation called so: `sdy`, `mhlo`, `shard`, `rfc`, `jax`, ….

        Raises:
            ShardingError: no such notation, or it cannot express this sharding.

        Example:
            >>> import shardwright as sw
            >>> sw.TensorSharding.of(sw.Mesh(x=2, y=4), [["x"], []]).to("mhlo")
            '{devices=[2,1,4]<=[8] last_tile_dim_replicate}'
        """
        text: str = provided("sharding as text")(self, notation, shape=None if shape is None else tuple(shape))
        return text

    def _repr_html_(self) -> str:
        """A picture, for notebooks: see `report.notebook`."""
        picture: str = provided("sharding as picture")(self)
        return picture


@memoize
def interned(sharding: TensorSharding) -> TensorSharding:
    """The first of all equal ones: of those that many ask for, so that mostly a look tells that two are equal."""
    return sharding


@lru_cache(maxsize=4096)
def replicated(mesh: Mesh, rank: int, open: bool = False) -> TensorSharding:
    """The fully replicated sharding of a tensor of `rank` dimensions."""
    return TensorSharding(mesh, (DimSharding((), open),) * rank)


def same_grid(left: Mesh, right: Mesh) -> bool:
    """Whether two meshes have the same axes, and so differ at most by device order and name."""
    return left.axes == right.axes and left.is_maximal == right.is_maximal


def same_placement(left: TensorSharding, right: TensorSharding) -> bool:
    """Whether every device holds the same part, of the same contribution, under both (meshes of the same axes)."""
    if _wide_axes(left) == _wide_axes(right) and left.mesh.device_ids == right.mesh.device_ids:
        return True
    if left.mesh.device_ids == right.mesh.device_ids or left.mesh.is_maximal:
        return False
    return _holdings(left) == _holdings(right)


def _holdings(sharding: TensorSharding) -> dict[int, tuple[int, ...]]:
    """Device → the index of its part in each dimension, and of its contribution."""
    mesh, lists = sharding.mesh, (*sharding.axes, sharding.partial_axes)
    return {
        mesh.device_id(position): tuple(mesh.index(axes, position) for axes in lists) for position in range(mesh.listed)
    }


def _wide_axes(sharding: TensorSharding) -> tuple[object, ...]:
    """The layout without axes of one device, which split nothing."""
    lists = (merge_axes(tuple(axis for axis in axes if axis.size > 1)) for axes in sharding.axes)
    return (*lists, without_idle(sharding.closed().partial))


def without_idle(partial: Iterable[Partial]) -> tuple[Partial, ...]:
    """What is partial, without axes of one device."""
    return tuple(p for p in partial if p.axis.size > 1)
