"""Gathers and scatters of windows of a split dimension, as those of its rows.

A window of several rows at one index may lie on several devices. Taken as rows, each at an index of its own, each of
them lies on one:

    window of 2 rows at [3]    →    rows at [3, 4]

A gather moves a window to where it fits, a scatter drops one that does not: that is done to a window's index first. The
slices stay what they are, but their dimension along the window is then one of positions.
"""

from __future__ import annotations

from typing import NamedTuple

from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.partition.localize.indices import signed
from shardwright.partition.localize.local import Local
from shardwright.sharding import TensorSharding

__all__ = ["GATHER", "SCATTER", "Numbers", "Words", "dims_in_part", "gathered_rows", "scattered_rows", "window_of"]

Numbers = dict[str, tuple[int, ...]]
"""Dimension numbers by their names; `index_vector_dim` is one number."""


class Words(NamedTuple):
    """What the dimension numbers of an op are called.

    Attributes:
        name: The attribute.
        window: The slices' dimensions that run along windows.
        single: The operand's dimensions of which windows have one element and slices none.
        operand_batching: The operand's batching dimensions.
        indices_batching: Those of the indices.
        places: The operand's dimensions that the components of index vectors count in.
    """

    name: str
    window: str
    single: str
    operand_batching: str
    indices_batching: str
    places: str

    def read(self, signature: Signature) -> Numbers:
        """The dimension numbers of an op."""
        numbers: Numbers = signature.get(self.name, {})
        return numbers

    def written(self, signature: Signature, numbers: Numbers, vector: int) -> Signature:
        """The op with other dimension numbers, the components of its indices being in dimension `vector`."""
        lists = [f"{word} = [{', '.join(map(str, numbers[word]))}]" for word in self[1:] if numbers.get(word)]
        text = ", ".join([*lists, f"index_vector_dim = {vector}"])
        if self is GATHER:
            return signature.replace(dimension_numbers=f"#stablehlo.gather<{text}>")
        return signature.replace(scatter_dimension_numbers=f"#stablehlo.scatter<{text}>")


GATHER = Words(
    "dimension_numbers",
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
SCATTER = Words(
    "scatter_dimension_numbers",
    "update_window_dims",
    "inserted_window_dims",
    "input_batching_dims",
    "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)


def dims_in_part(signature: Signature) -> list[int]:
    """The dimensions of a scatter's operand of which windows have several elements, and not all: one that reaches
    beyond the end is dropped.
    """
    numbers, shape = SCATTER.read(signature), signature.operands[0].dims
    updates = signature.operands[len(signature.results) + 1].dims
    return [dim for dim, out in window_of(SCATTER, numbers, len(shape)).items() if 1 < updates[out] < shape[dim]]


def window_of(words: Words, numbers: Numbers, rank: int) -> dict[int, int]:
    """Dimension of an operand of this rank → dimension of the slices that runs along it."""
    skipped = {*numbers.get(words.single, ()), *numbers.get(words.operand_batching, ())}
    kept = [dim for dim in range(rank) if dim not in skipped]
    return dict(zip(kept, numbers.get(words.window, ()), strict=True))


class Rows(NamedTuple):
    """An op on rows in place of one on windows.

    Attributes:
        signature: The op.
        indices: Its indices on this device.
        sharding: How these lie.
    """

    signature: Signature
    indices: int
    sharding: TensorSharding


def gathered_rows(ctx: Local, signature: Signature, indices: int, sharding: TensorSharding, dim: int) -> Rows:
    """A gather of the rows of its windows along a dimension of its operand, which an index counts in."""
    sizes = list(signature.get("slice_sizes", ()))
    rows = _Rows(signature, GATHER, 1, dim, sizes[dim])
    sizes[dim] = 1
    made = rows.of(ctx, indices, sharding, clamps=True)
    return made._replace(signature=made.signature.replace(slice_sizes=i64_array(sizes)))


def scattered_rows(ctx: Local, signature: Signature, indices: int, sharding: TensorSharding, dim: int) -> Rows:
    """A scatter of the rows of its windows along a dimension of its operand, which an index counts in."""
    count = len(signature.results)
    updates = signature.operands[count + 1].dims
    window = window_of(SCATTER, SCATTER.read(signature), signature.operands[0].rank)
    made = _Rows(signature, SCATTER, count, dim, updates[window[dim]]).of(ctx, indices, sharding, clamps=False)
    return made._replace(signature=made.signature.replace(unique_indices="false"))


class _Rows:
    """Windows of so many rows along a dimension of the first operand, the indices being operand `place`."""

    def __init__(self, signature: Signature, words: Words, place: int, dim: int, count: int) -> None:
        self.signature = signature
        self.words = words
        self.place = place
        self.dim = dim
        self.count = count
        self.numbers = words.read(signature)
        self.vector: int = self.numbers.get("index_vector_dim", 0)  # type: ignore[assignment]
        self.rank = signature.operands[place].rank
        self.out = window_of(words, self.numbers, signature.operands[0].rank)[dim]
        self.at = self.new_dim()

    def new_dim(self) -> int:
        """Which dimension of the indices counts the rows: positions come in one order there and in the slices."""
        before = self.out - sum([1 for window in self.numbers[self.words.window] if window < self.out])
        positions = [dim for dim in range(self.rank) if dim != self.vector]
        return positions[before] if before < len(positions) else (positions[-1] + 1 if positions else 0)

    def of(self, ctx: Local, indices: int, sharding: TensorSharding, clamps: bool) -> Rows:
        """The op on rows."""
        numbers, words, at = dict(self.numbers), self.words, self.at
        numbers[words.window] = tuple([out for out in numbers[words.window] if out != self.out])
        numbers[words.single] = tuple(sorted((*numbers.get(words.single, ()), self.dim)))
        batching = numbers.get(words.indices_batching, ())
        numbers[words.indices_batching] = tuple([dim + (dim >= at) for dim in batching])
        made = self.indices(ctx, indices, clamps)
        type = self.signature.operands[self.place]
        dims = (*type.dims[:at], self.count, *type.dims[at:])
        operands = list(self.signature.operands)
        operands[self.place] = ctx.type(made).with_shape(dims)
        signature = words.written(self.signature, numbers, self.new_vector)
        signature = signature.replace(operands=tuple(operands), indices_are_sorted="false")
        return Rows(signature, made, sharding.with_axes((*sharding.axes[:at], (), *sharding.axes[at:])))

    @property
    def new_vector(self) -> int:
        """The dimension of the indices that holds their components."""
        return self.vector + (self.vector >= self.at)

    def indices(self, ctx: Local, indices: int, clamps: bool) -> int:
        """The index of each row: that of its window, brought to where that fits or, of what is dropped, to -1."""
        shape, places = self.signature.operands[0].dims, self.numbers[self.words.places]
        indices = signed(ctx, indices, tuple([shape[dim] for dim in places]), 1)
        type = ctx.type(indices)
        type = type.with_shape((*type.dims[: self.at], self.count, *type.dims[self.at :]))
        kept = [dim for dim in range(type.rank) if dim != self.at]
        windows, row = ctx.broadcast(indices, type.dims, kept), ctx.iota(type, self.at)
        zero, last, beside = (ctx.constant(number, type) for number in (0, shape[self.dim] - self.count, -1))
        if clamps:
            rows = ctx.binary("add", ctx.emit("clamp", (zero, windows, last), type), row)
        else:
            fits = ctx.binary("and", ctx.compare(windows, zero, "GE"), ctx.compare(windows, last, "LE"))
            rows = ctx.select(fits, ctx.binary("add", windows, row), beside)
        if len(places) == 1:
            return rows
        component = ctx.iota(type, self.new_vector)
        own = ctx.compare(component, ctx.constant(places.index(self.dim), type), "EQ")
        return ctx.select(own, rows, windows)
