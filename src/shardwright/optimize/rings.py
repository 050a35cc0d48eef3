"""Products around a ring of devices, as one of them computes: a part at a time, while the next one is on its way.

What is gathered comes part by part from the device behind; the own part is the first. On device `i` of `n`, turn `t`:

    send   part (i + t)      to the device before
    compute the product of   part (i + t)          and put it in its place, or add it to what there is

What is scattered goes part by part to the device behind, which adds its own; the own part is the last:

    compute the product for  part (i - 1 - t)      and add it to what came
    send   the sum           to the device behind

Source: Wang et al., "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning Models"
(collective matmul).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwright.axes import Axes, axes_size
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.localize.collectives import local_send
from shardwright.partition.localize.local import Local
from shardwright.routes import Route

__all__ = ["Ring", "gathered_product", "scattered_product"]

_INDEX = TensorType((), "i32")


class Ring(NamedTuple):
    """A product of which devices along some axes have parts.

    Attributes:
        axes: The axes; devices are numbered by their index along them.
        mesh: Of these axes.
        product: The product as a device computes it whole.
        cut: For each operand the dimension that is cut into parts; `None` where none is.
        place: The dimension of the result that is; `None` where parts are added.
        moved: The operand that is gathered.
    """

    axes: Axes
    mesh: Mesh
    product: Signature
    cut: tuple[int | None, int | None]
    place: int | None
    moved: int = 0

    @property
    def devices(self) -> int:
        """How many parts there are."""
        return axes_size(self.axes)

    @property
    def part(self) -> Signature:
        """The product of a part."""
        (result,) = self.product.results
        cut = zip((*self.product.operands, result), (*self.cut, self.place), strict=True)
        *operands, made = [_cut(type, dim, self.devices) for type, dim in cut]
        return self.product.replace(operands=tuple(operands), results=(made,))


def gathered_product(ctx: Local, ring: Ring, values: Sequence[int]) -> list[int]:
    """The product of operands of which the device has a part of the one that moves, and the other whole."""
    (result,) = ring.product.results
    index = ctx.axis_index(ring.axes, ring.mesh)
    piece, made = values[ring.moved], None if ring.place is None else ctx.constant(0, result)
    for turn in range(ring.devices):
        following = _from(ctx, ring, piece, 1) if turn + 1 < ring.devices else piece
        owner = _turned(ctx, index, turn, ring.devices)
        operands = [_part_of(ctx, ring, value, number, owner) for number, value in enumerate(values)]
        operands[ring.moved] = piece
        (part,) = ctx.append(ring.part, operands)
        if ring.place is not None and made is not None:
            starts = _starts(ctx, result, ring.place, owner, ring.devices)
            made = ctx.emit("dynamic_update_slice", (made, part, *starts), result)
        else:
            made = part if made is None else ctx.binary("add", made, part)
        piece = following
    assert made is not None, "there is a first turn"
    return [made]


def scattered_product(ctx: Local, ring: Ring, values: Sequence[int]) -> list[int]:
    """The part of the sum of all devices' products that this device is to have."""
    index = ctx.axis_index(ring.axes, ring.mesh)
    total: int | None = None
    for turn in range(ring.devices):
        came = None if total is None else _from(ctx, ring, total, -1)
        owner = _turned(ctx, index, -1 - turn, ring.devices)
        operands = [_part_of(ctx, ring, value, number, owner) for number, value in enumerate(values)]
        (part,) = ctx.append(ring.part, operands)
        total = part if came is None else ctx.binary("add", came, part)
    assert total is not None, "there is a first turn"
    return [total]


def _cut(type: TensorType, dim: int | None, parts: int) -> TensorType:
    if dim is None:
        return type
    return type.with_shape((*type.dims[:dim], type.dims[dim] // parts, *type.dims[dim + 1 :]))


def _from(ctx: Local, ring: Ring, value: int, ahead: int) -> int:
    """The value of the device so many ahead in the ring."""
    around = ahead - ring.devices if ahead > 0 else ahead + ring.devices
    routes = [Route.along(1, offset, ring.devices) for offset in (ahead, around)]
    return local_send(ctx, value, ring.axes, routes, ring.mesh)


def _turned(ctx: Local, index: int, turn: int, devices: int) -> int:
    """The index of the device so many ahead in the ring."""
    if turn % devices == 0:
        return index
    ahead = ctx.binary("add", index, ctx.constant(turn % devices, _INDEX))
    return ctx.binary("remainder", ahead, ctx.constant(devices, _INDEX))


def _part_of(ctx: Local, ring: Ring, value: int, number: int, owner: int) -> int:
    """The part of an operand that goes with that of a device; the whole where it is not cut, or cut already."""
    dim, whole = ring.cut[number], ring.product.operands[number]
    if dim is None or ctx.type(value) != whole:
        return value
    return ctx.dynamic_slice(value, _starts(ctx, whole, dim, owner, ring.devices), _cut(whole, dim, ring.devices).dims)


def _starts(ctx: Local, whole: TensorType, dim: int, owner: int, parts: int) -> list[int]:
    """Where the part of a device begins."""
    dtype = "i64" if max(whole.dims) >= 1 << 31 else "i32"
    zero, size = ctx.constant(0, TensorType((), dtype)), TensorType((), dtype)
    start = ctx.binary("multiply", ctx.convert(owner, dtype), ctx.constant(whole.dims[dim] // parts, size))
    return [start if place == dim else zero for place in range(len(whole.dims))]
