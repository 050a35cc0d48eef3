"""What `mhlo.sharding` says, as a value: the model of the text itself, whether or not a mesh can express it.

Values print as XLA prints them; `canonical` brings tiles, orders and subgroups into the form that XLA keeps.

    >>> tiled = HloSharding("tiled", (2, 4, 1), Iota((2, 1, 4), (2, 1, 0)), ("replicated",))
    >>> str(tiled), str(tiled.canonical())
    ('{devices=[2,4,1]<=[2,1,4]T(2,1,0) last_tile_dim_replicate}', '{devices=[2,4]<=[2,4]T(1,0)}')

Source: StableHLO's "MHLO sharding format"; `HloSharding::Print`, `HloSharding::Subgroup` and `NamedSharding` of XLA.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from shardwright.axes import Axes, AxisRef
from shardwright.mesh import Mesh
from shardwright.notation.hlo.tiles import Iota, Order, digits_per_dim, expand
from shardwright.sharding import DimSharding, Partial

__all__ = ["SUBGROUPS", "WHOLE", "HloSharding", "NamedForm"]

SUBGROUPS = ("maximal", "manual", "unreduced", "replicated")
"""Types of subgroups in the order in which XLA keeps them."""

WHOLE = ("replicated", "maximal", "manual", "unknown", "unreduced")
"""What can be said of a whole tensor; of several, the first holds."""


@dataclass(frozen=True, slots=True)
class NamedForm:
    """The form with a mesh: `{mesh['a'=2,'b'=4], [{'a'}, {'b'}], unreduced={…}}`.

    Attributes:
        axes: Names and sizes of the mesh's axes, major to minor.
        order: Its devices where they are not in order.
        whole: `replicated`, `unreduced` or `manual` where that is said of the whole tensor, else empty.
        dims: The axes of each dimension.
        replicated: Axes that must not split the tensor.
        partial: Axes along which it is unreduced, with the kind of reduction.
        manual: Axes that a manual computation has taken.
    """

    axes: tuple[tuple[str, int], ...]
    order: Order | None = None
    whole: str = ""
    dims: tuple[DimSharding, ...] = ()
    replicated: Axes = ()
    partial: tuple[Partial, ...] = ()
    manual: Axes = ()

    def mesh(self) -> Mesh:
        """The mesh, its devices written out where they are not in order."""
        if self.order is None:
            return Mesh(self.axes)
        return Mesh(self.axes, device_ids=[int(device) for device in expand(self.order)])

    def text(self, spelling: str = "quoted") -> str:
        """What stands between the braces, metadata left out.

        Arguments:
            spelling: `quoted` or `newest` as XLA reads it, or `unquoted` as in its documentation.
        """
        quote = "" if spelling == "unquoted" else "'"
        text = f"mesh[{','.join(f'{quote}{name}{quote}={size}' for name, size in self.axes)}]"
        if isinstance(self.order, Iota):
            text += f", device_ids=({self.order})"
        elif self.order is not None:
            text += f", device_ids=({','.join(map(str, self.order))})"
        if self.whole:
            return f"{text}, {self.whole}"

        def names(axes: Iterable[AxisRef]) -> str:
            return ", ".join(quote + axis.name + quote + part(axis) for axis in axes)

        def part(axis: AxisRef) -> str:
            return "" if (axis.pre, axis.size) == (1, sizes[axis.name]) else axis.part

        sizes = dict(self.axes)
        dims = [", ".join(filter(None, [names(dim.axes), "?" if dim.open else ""])) for dim in self.dims]
        text += f", [{', '.join(f'{{{dim}}}' for dim in dims)}]"
        if self.replicated:
            text += f", replicated={{{names(self.replicated)}}}"
        for kind in dict.fromkeys(p.kind for p in self.partial):
            of_kind = names(p.axis for p in self.partial if p.kind == kind)
            text += f", unreduced={'' if kind == 'sum' else kind}{{{of_kind}}}"
        return text + (f", manual={{{names(self.manual)}}}" if self.manual else "")


@dataclass(frozen=True, slots=True)
class HloSharding:
    """One `mhlo.sharding`, as its text says.

    Attributes:
        kind: `replicated`, `maximal`, `manual`, `unknown`, `unreduced`, `tiled`, `named` or `tuple`.
        tile: Of `tiled`: how many tiles along each dimension, then the sizes of the subgroups.
        order: Of `tiled`: the device of each tile, counted (V2) or listed (V1).
        subgroups: Of `tiled`: the types of the last dimensions of `tile`. `("replicated",)` is
            `last_tile_dim_replicate`.
        device: Of `maximal`: the device that has the whole tensor.
        elements: Of `tuple`: its shardings.
        named: Of `named`: the form with a mesh.
        group: `("shard_as", 1)` or `("shard_like", 1)`, or `None`.
        metadata: What follows `metadata=`, as written.
    """

    kind: str
    tile: tuple[int, ...] = ()
    order: Order = ()
    subgroups: tuple[str, ...] = ()
    device: int = 0
    elements: tuple[HloSharding, ...] = ()
    named: NamedForm | None = None
    group: tuple[str, int] | None = None
    metadata: str = ""

    @property
    def data_tile(self) -> tuple[int, ...]:
        """How many tiles along each dimension of the tensor."""
        return self.tile[: len(self.tile) - len(self.subgroups)]

    def __str__(self) -> str:
        """The text, as XLA prints it."""
        return self.text()

    def text(self, spelling: str = "quoted") -> str:
        """The text in one of the three spellings of the form with a mesh: `quoted`, `unquoted` or `newest`.

        See `NamedForm.text`. In the newest one, the sharding on one device is `{single_device[device_id=5]}`.
        """
        if self.kind == "tuple":
            parts = [element.text(spelling) for element in self.elements]
            marked = [f"/*index={i}*/{part}" if i and i % 5 == 0 else part for i, part in enumerate(parts)]
            return f"{{{', '.join(marked)}}}"
        if self.named is not None:
            tail = f", metadata={self.metadata}" if self.metadata else ""
            return f"{{{self.named.text(spelling)}{tail}}}"
        items = [f"maximal device={self.device}" if self.kind == "maximal" else self.kind]
        if self.kind == "maximal" and spelling == "newest":
            items = [f"single_device[device_id={self.device}]"]
        if self.kind == "tiled":
            order = f"<={self.order}" if isinstance(self.order, Iota) else ",".join(map(str, self.order))
            items = [f"devices=[{','.join(map(str, self.tile))}]{order}"]
        if self.subgroups == ("replicated",):
            items.append("last_tile_dim_replicate")
        elif self.subgroups:
            items.append(f"last_tile_dims={{{', '.join(self.subgroups)}}}")
        if self.group is not None:
            items.append(f"{self.group[0]} {self.group[1]}")
        if self.metadata:
            items.append(f"metadata={self.metadata}")
        return f"{{{' '.join(items)}}}"

    def canonical(self) -> HloSharding:
        """The same sharding in the form that XLA keeps and prints.

        Iota orders lose dimensions of size 1 and those that count on are merged; subgroups of size 1 go, those of one
        type are merged, the rest sorted by type; replicas of a tile are sorted by device; one type alone on a tensor
        that is not split is said of the whole.

        Raises:
            ShardingError: the order is too long to be written out, and only so can this be done.
        """
        if self.kind == "tuple":
            return replace(self, elements=tuple(element.canonical() for element in self.elements))
        if self.kind != "tiled":
            return self
        cleaned = self._without_idle_subgroups()
        types = set(cleaned.subgroups or self.subgroups)
        if math.prod(self.data_tile) == 1 and len(types) == 1 and types != {"maximal"}:
            return HloSharding(types.pop(), group=self.group, metadata=self.metadata)
        return cleaned

    def _without_idle_subgroups(self) -> HloSharding:
        """With subgroups sorted and merged, replicas sorted by device and the order in canonical form."""
        data, rank = self.data_tile, len(self.data_tile)
        kept = [(of, size) for of, size in zip(self.subgroups, self.tile[rank:], strict=True) if size > 1]
        by_type = sorted(range(len(kept)), key=lambda index: SUBGROUPS.index(kept[index][0]))
        perm = (*range(rank), *(rank + index for index in by_type))
        order = _reordered(self.order, (*data, *(size for _, size in kept)), perm)
        subgroups = tuple(kind for kind in SUBGROUPS if any(of == kind for of, _ in kept))
        tile = (*data, *(math.prod(size for of, size in kept if of == kind) for kind in subgroups))
        if subgroups[-1:] == ("replicated",):
            order = _sorted_within(order, math.prod(tile[:-1]), tile[-1])
        return replace(self, tile=tile, order=order, subgroups=subgroups)


def _reordered(order: Order, dims: tuple[int, ...], perm: tuple[int, ...]) -> Order:
    """`order` over `dims` with the dimensions in another order; iota orders stay so where digits allow."""
    if perm == tuple(range(len(dims))):
        return order.canonical() if isinstance(order, Iota) else order
    if isinstance(order, Iota):
        digits = digits_per_dim(dims, order.digits())
        if digits is not None:
            return Iota.of_digits(digit for dim in perm for digit in digits[dim])
    return tuple(int(device) for device in expand(order).reshape(dims).transpose(perm).ravel())


def _sorted_within(order: Order, tiles: int, replicas: int) -> Order:
    """`order` with the devices of each tile sorted."""
    if isinstance(order, Iota):
        digits = digits_per_dim((tiles, replicas), order.digits())
        if digits is not None:
            return Iota.of_digits((*digits[0], *sorted(digits[1], key=lambda digit: -digit[1])))
    devices = np.sort(expand(order).reshape(tiles, replicas), axis=1)
    return tuple(int(device) for device in devices.ravel())
