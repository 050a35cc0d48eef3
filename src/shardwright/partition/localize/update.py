"""dynamic_update_slice into a tensor of which each device holds a part.

The update is whole on every device and each writes what falls into its shard. With a shard of L elements from `offset`
on, an update of U elements from `start` on reaches at most W = min(U, L) of them, all of which lie in the W elements
from `place` on, `start - offset` clamped to the shard:

    pad the update with W elements on both sides, and cut W out of that at place + offset - start + W:
    what falls there on the shard; elements that came from the padding are masked and stay as they were

So a row written into a cache that is split along its rows touches one row of each shard, not all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike
from shardwright.partition.localize.indices import signed
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_form, local_signature, localizer
from shardwright.partition.localize.starts import has_unsigned_starts, with_clamped_starts
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@local_form("stablehlo.dynamic_update_slice")
def _local_update(signature: Signature, source: Shardings, target: Shardings) -> Signature | None:
    """The same on one device's shards, where these are all of each dimension that is written to in part."""
    if _crossed(signature, source, target) or has_unsigned_starts(signature):
        return None
    return local_signature(signature, source, target)


# It works out itself which part of an update falls into a shard.
@localizer("stablehlo.dynamic_update_slice", covered=lambda signature, rule, splittable: splittable | rule.pass_through)
def _dynamic_update_slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    crossed = _crossed(signature, source, target)
    if not crossed:
        return with_clamped_starts(ctx, local_signature(signature, source, target), operands)
    return (_Masked(ctx, signature, operands, source[0], crossed).write(),)


@memoize
def _crossed(signature: Signature, source: Shardings, target: Shardings) -> tuple[int, ...]:
    """The split dimensions that are written to in part.

    Raises:
        ShardingError: operand and result lie otherwise, or the update is split along another dimension.
    """
    whole, part = signature.operands[0].dims, signature.operands[1].dims
    require_alike("a dynamic update", range(source[0].rank), source[0], target[0])
    crossed: list[int] = []
    for dim, axes in enumerate(source[0].axes):
        alike = part[dim] == whole[dim] and wide(axes) == wide(source[1].axes[dim])
        if is_split(axes) and not alike:
            crossed.append(dim)
        if not alike and is_split(source[1].axes[dim]):
            raise ShardingError(
                f"a dynamic update needs dimension {dim} of the update whole, but it lies as {source[1]!r}",
                remedy="gather the update before the op",
            )
    return tuple(crossed)


class _Masked:
    """One masked write, across the dimensions `crossed`."""

    def __init__(
        self,
        ctx: Local,
        signature: Signature,
        operands: Sequence[int],
        sharding: TensorSharding,
        crossed: tuple[int, ...],
    ) -> None:
        self.ctx = ctx
        self.sharding = sharding
        self.crossed = crossed
        self.whole = signature.operands[0].dims
        self.shard = local_type(signature.operands[0], sharding).dims
        self.operand, self.update = operands[0], operands[1]
        self.part = ctx.type(self.update).dims
        self.dtype = "i64" if max(self.whole, default=0) >= 1 << 30 else "i32"
        self.zero = ctx.constant(0, TensorType((), self.dtype))
        globally = signature.operands[1].dims
        self.starts = [self.start(value, self.whole[dim] - globally[dim]) for dim, value in enumerate(operands[2:])]
        self.offsets = {dim: self.offset(dim) for dim in crossed}
        self.reach = tuple(map(min, self.part, self.shard))
        self.places = [self.place(dim) if dim in crossed else start for dim, start in enumerate(self.starts)]

    def start(self, value: int, limit: int) -> int:
        """A start as StableHLO clamps it, clamped before its width changes."""
        ctx = self.ctx
        value = signed(ctx, value, (limit,), 1)
        type = ctx.type(value)
        value = ctx.binary("maximum", value, ctx.constant(0, type))
        return ctx.convert(ctx.binary("minimum", value, ctx.constant(limit, type)), self.dtype)

    def offset(self, dim: int) -> int:
        return self.ctx.offset(self.sharding.axes[dim], self.shard[dim], self.sharding.mesh, self.dtype)

    def place(self, dim: int) -> int:
        """Where the elements of the shard begin that the update may reach."""
        ctx, last = self.ctx, self.shard[dim] - self.reach[dim]
        if last == 0:
            return self.zero
        ahead = ctx.binary("subtract", self.starts[dim], self.offsets[dim])
        type = ctx.type(ahead)
        return ctx.binary("minimum", ctx.binary("maximum", ahead, ctx.constant(0, type)), ctx.constant(last, type))

    def write(self) -> int:
        """The new shard."""
        ctx, piece = self.ctx, self.piece()
        shape = ctx.type(piece).dims
        current = self.operand if shape == self.shard else ctx.dynamic_slice(self.operand, self.places, shape)
        merged = ctx.select(self.mask(shape), piece, current)
        if shape == self.shard:
            return merged
        return ctx.emit("dynamic_update_slice", (self.operand, merged, *self.places), ctx.type(self.operand))

    def piece(self) -> int:
        """What the update puts at each place that it may reach."""
        ctx, rank = self.ctx, len(self.shard)
        margin = [self.reach[dim] if dim in self.crossed else 0 for dim in range(rank)]
        padded = tuple(size + 2 * edge for size, edge in zip(self.part, margin, strict=True))
        type = ctx.type(self.update)
        attributes = {
            "edge_padding_low": i64_array(margin),
            "edge_padding_high": i64_array(margin),
            "interior_padding": i64_array([0] * rank),
        }
        zero = ctx.constant(0, type.with_shape(()))
        wide = ctx.emit("pad", (self.update, zero), type.with_shape(padded), attributes)
        starts = [self.zero] * rank
        for dim in self.crossed:
            ahead = ctx.binary("subtract", self.first(dim), self.starts[dim])
            starts[dim] = ctx.binary("add", ahead, ctx.constant(margin[dim], ctx.type(ahead)))
        return ctx.dynamic_slice(wide, starts, self.reach)

    def first(self, dim: int) -> int:
        """The number, in the whole dimension, of the first element that the update may reach."""
        if self.places[dim] == self.zero:
            return self.offsets[dim]
        return self.ctx.binary("add", self.offsets[dim], self.places[dim])

    def mask(self, shape: tuple[int, ...]) -> int:
        """Which elements of the piece the update covers."""
        ctx = self.ctx
        mask: int | None = None
        for dim in self.crossed:
            line = (shape[dim],)
            type = TensorType(line, self.dtype)
            place = ctx.binary("add", ctx.iota(type, 0), ctx.broadcast(self.first(dim), line))
            start = self.starts[dim]
            end = ctx.binary("add", start, ctx.constant(self.part[dim], ctx.type(start)))
            covered = ctx.binary(
                "and",
                ctx.compare(place, ctx.broadcast(start, line), "GE"),
                ctx.compare(place, ctx.broadcast(end, line), "LT"),
            )
            spread = ctx.broadcast(covered, shape, (dim,))
            mask = spread if mask is None else ctx.binary("and", mask, spread)
        assert mask is not None
        return mask
