"""One sharding as upstream MLIR writes it, in its `shard` dialect and in the `mesh` dialect before it.

    shard.sharding @g split_axes = [[0], []] sharded_dims_offsets = [0, 3, 8]
    mesh.sharding @m split_axes = [[0]] partial = max [1]
    #mesh.shard<@m, [[0]], partial = max[1]>

Axes go by their position in the mesh. A partial tensor is printed as `mesh.sharding`: `shard` dropped partial axes in
July 2025. Where shards do not divide a dimension the dialect gives the remainder to the *last* shards (15 over 4 is
3, 4, 4, 4) and the model to the first, so such a sharding enters and leaves with explicit offsets. Without a shape,
dimensions are taken to divide.

Source: MLIR's `shard` and `mesh` dialect pages, ShardingOp with its verifier, and ShardShapeOp for the remainder.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_positions import axes_at, layout, mesh_symbol, named, positions
from shardwright.notation.axis_scanner import CallScanner
from shardwright.notation.notation import Notation, Shape
from shardwright.notation.rfc.sharding import KEYWORD, PREFIX
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["ceil_cuts", "parse", "print_sharding", "trailing_cuts"]

_KINDS = {
    "sum": "sum",
    "max": "max",
    "min": "min",
    "product": "product",
    "average": "average",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_MANY = 1 << 16
"""Shards of one dimension whose cuts are still written out."""


def parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """A `shard.sharding`, a `mesh.sharding` or an attribute `#mesh.shard<…>` with its keywords.

    Raises:
        ShardingError: malformed text, an unknown mesh, or what the verifier of the op refuses.
    """
    scan = CallScanner(text)
    attribute = text.startswith(PREFIX)
    dialect = _head(scan, attribute)
    symbol = scan.symbol()
    if symbol is not None and attribute:
        scan.take(",")
    if not attribute or scan.peek() == "split_axes":
        scan.take("split_axes")
        scan.take("=")
    lists = scan.lists()
    kind, partial, numbers = _keywords(scan, attribute, dialect)
    grid = named(mesh, symbol, text)
    if shape == () and lists == [[]]:
        lists = []  # before `[]` was allowed
    if shape is not None:
        if len(lists) > len(shape):
            raise ShardingError(
                f"{len(lists)} lists of split axes are given to a tensor of {len(shape)} dimensions",
                remedy="give at most one list per dimension",
            )
        lists += [[] for _ in range(len(shape) - len(lists))]
    *dims, along = axes_at([*lists, partial], grid)
    sharding = TensorSharding(
        grid,
        tuple(DimSharding(axes) for axes in dims),
        partial=tuple(Partial(axis, kind) for axis in sorted(along, key=grid.sort_key)),
    )
    return _bounded(sharding, numbers, shape)


def _head(scan: CallScanner, attribute: bool) -> str:
    if attribute:
        for token in ("#", "mesh.shard", "<"):
            scan.take(token)
        return "mesh"
    if scan.peek().startswith("%"):
        scan.take()
        scan.take("=")
    if scan.peek() in ("shard.sharding", "mesh.sharding"):
        return scan.take().partition(".")[0]
    return ""


def _keywords(scan: CallScanner, attribute: bool, dialect: str) -> tuple[str, list[int], dict[str, list[int]]]:
    kind, partial = "sum", list[int]()
    numbers: dict[str, list[int]] = {}
    while scan.accept(",") if attribute else scan.peek() not in ("", ":"):
        what = scan.peek()
        if what == "partial" and dialect == "shard":
            scan.refuse("`shard` has no partial axes", "write mesh.sharding")
        if what not in ("partial", "halo_sizes", "sharded_dims_offsets") or what in numbers:
            scan.refuse("expected `partial`, `halo_sizes` or `sharded_dims_offsets`, once each")
        scan.take()
        scan.take("=")
        if what == "partial":
            kind = _kind(scan)
        numbers[what] = scan.integers()
    if attribute:
        scan.take(">")
    elif scan.accept(":"):
        scan.take("!")
        if dialect or not scan.accept("mesh.sharding"):
            scan.take(f"{dialect or 'shard'}.sharding")
    scan.end()
    return kind, numbers.pop("partial", partial), numbers


def _kind(scan: CallScanner) -> str:
    if scan.peek() not in _KINDS:
        scan.refuse(f"no such kind of partial tensor here, known are {', '.join(_KINDS)}")
    return _KINDS[scan.take()]


def _bounded(sharding: TensorSharding, numbers: dict[str, list[int]], shape: Shape | None) -> TensorSharding:
    """With the halos or offsets in `numbers`; where there are none, with the dialect's own remainders."""
    split = [dim for dim, entry in enumerate(sharding.dims) if entry.axes]
    counts = {dim: axes_size(sharding.dims[dim].axes) for dim in split}
    uneven = [dim for dim in split if shape is not None and shape[dim] % counts[dim]]
    if len(numbers) > 1:
        raise ShardingError("halo_sizes and sharded_dims_offsets are both given", remedy="give one of the two")
    if "halo_sizes" in numbers:
        return _with_halos(sharding, numbers["halo_sizes"], split, uneven)
    offsets: dict[int, tuple[int, ...]] = {}
    if "sharded_dims_offsets" in numbers:
        offsets = _cut(numbers["sharded_dims_offsets"], counts)
    elif shape is not None:
        offsets = {dim: trailing_cuts(shape[dim], counts[dim]) for dim in uneven}
    for dim, cuts in list(offsets.items()):
        size = cuts[-1]
        if (shape is not None or size % counts[dim] == 0) and cuts == ceil_cuts(size, counts[dim]):
            del offsets[dim]
        if shape is not None and size != shape[dim]:
            raise ShardingError(
                f"offsets of dimension {dim} end at {size}, its size is {shape[dim]}", remedy=f"end at {shape[dim]}"
            )
    if not offsets:
        return sharding
    bounded = replace(sharding, offsets=tuple(offsets.get(dim) for dim in range(sharding.rank)))
    bounded.check(shape)
    return bounded


def _with_halos(sharding: TensorSharding, sizes: list[int], split: list[int], uneven: list[int]) -> TensorSharding:
    if len(sizes) != 2 * len(split) or min(sizes, default=0) < 0:
        raise ShardingError(
            f"halo_sizes {sizes} do not fit {len(split)} split dimensions",
            remedy="give two sizes of at least 0, before and after, for each dimension with split axes",
        )
    if uneven:
        raise ShardingError(
            f"halos are given to dimension {uneven[0]}, which its shards do not divide",
            cause="the last shards would be larger, which takes offsets, and these exclude halos",
            remedy="pad the dimension to a multiple of its shards",
        )
    pairs = dict(
        zip(split, [pair if any(pair) else None for pair in zip(sizes[::2], sizes[1::2], strict=True)], strict=True)
    )
    if not any(sizes):
        return sharding
    return replace(sharding, halos=tuple(pairs.get(dim) for dim in range(sharding.rank)))


def _cut(offsets: list[int], counts: dict[int, int]) -> dict[int, tuple[int, ...]]:
    expected = sum(count + 1 for count in counts.values())
    if len(offsets) != expected:
        raise ShardingError(
            f"{len(offsets)} sharded_dims_offsets are given, {expected} are needed",
            cause=f"the split dimensions have {', '.join(map(str, counts.values())) or 'no'} shards",
            remedy="for each split dimension give where every shard starts and where the last one ends",
        )
    rest = iter(offsets)
    cuts = {dim: tuple(itertools.islice(rest, count + 1)) for dim, count in counts.items()}
    for dim, values in cuts.items():
        if values[0] != 0 or any(low > high for low, high in itertools.pairwise(values)):
            raise ShardingError(
                f"offsets {list(values)[:16]} of dimension {dim} do not cut it into shards",
                remedy="begin at 0 and let none be smaller than the one before",
            )
    return cuts


def ceil_cuts(size: int, shards: int) -> tuple[int, ...]:
    """Where the model cuts `size` elements: 15 over 4 is 0, 4, 8, 12, 15."""
    chunk = -(-size // shards)
    return tuple(min(index * chunk, size) for index in range(_few(shards) + 1))


def trailing_cuts(size: int, shards: int) -> tuple[int, ...]:
    """Where the dialect cuts `size` elements, the last shards one larger: 15 over 4 is 0, 3, 7, 11, 15."""
    chunk, larger = divmod(size, _few(shards))
    first = shards - larger
    return tuple(index * chunk + max(0, index - first) for index in range(shards + 1))


def _few(shards: int) -> int:
    if shards > _MANY:
        raise ShardingError(
            f"a dimension has {shards} uneven shards",
            cause=f"their offsets are written out up to {_MANY} shards",
            remedy="pad the dimension to a multiple of its shards",
        )
    return shards


def print_sharding(sharding: TensorSharding, shape: Shape | None, dialect: str = "shard") -> str:
    """`shard.sharding @g split_axes = [[0], []]`, or `mesh.sharding` on request and where the tensor is partial.

    Raises:
        ShardingError: open dimensions, parts of axes, a mesh of no axes, two kinds of partial axes or a generic one,
            halos on a dimension that its shards do not divide, offsets of some dimensions only while the shape is
            unknown.
    """
    plain = layout(sharding, "the shard dialect")
    mesh = named(plain.mesh, None, repr(sharding))
    partial = _print_partial(plain)
    dialect = "mesh" if partial else dialect
    lists = positions(plain.axes, mesh) or [[]]  # upstream's parser wants one list even of a scalar
    return f"{dialect}.sharding {mesh_symbol(mesh)} split_axes = {lists}{partial}{_print_bounds(plain, shape)}"


def _print_partial(sharding: TensorSharding) -> str:
    kinds = sorted({p.kind for p in sharding.partial})
    if not kinds:
        return ""
    spelled = {kind: text for text, kind in _KINDS.items()}
    if len(kinds) > 1 or kinds[0] not in spelled:
        raise ShardingError(
            f"the mesh dialect cannot express a tensor partial by {' and '.join(kinds)}",
            cause=f"sharding {sharding!r}: the dialect has one kind of partial axes at a time, and none is generic",
            remedy="reduce along the axes of one kind first" if len(kinds) > 1 else "name the reduction",
        )
    return f" partial = {spelled[kinds[0]]} {positions([sharding.partial_axes], sharding.mesh)[0]}"


def _print_bounds(sharding: TensorSharding, shape: Shape | None) -> str:
    sharding.check(shape)
    split = {dim: axes_size(entry.axes) for dim, entry in enumerate(sharding.dims) if entry.axes}
    cuts: dict[int, tuple[int, ...] | None] = {dim: sharding.offsets[dim] for dim in split} if sharding.offsets else {}
    even = shape is None or all(shape[dim] % count == 0 for dim, count in split.items() if cuts.get(dim) is None)
    halos = [pair or (0, 0) for dim, pair in enumerate(sharding.halos or ()) if dim in split]
    if any(map(any, halos)):
        if not even:
            raise ShardingError(
                "the shard dialect cannot express halos where shards do not divide a dimension",
                cause=f"sharding {sharding!r} of {shape}: uneven shards take offsets, and these exclude halos",
                remedy="pad the dimension to a multiple of its shards",
            )
        return f" halo_sizes = {list(itertools.chain(*halos))}"
    told = [dim for dim, cut in cuts.items() if cut and (cut[-1] % split[dim] or cut != ceil_cuts(cut[-1], split[dim]))]
    if even and not told:
        return ""
    if shape is None and not all(cuts.values()):
        raise ShardingError(
            "offsets of some split dimensions are known and those of others are not",
            cause=f"sharding {sharding!r}; the dialect gives offsets for all or none",
            remedy="give the shape",
        )
    offsets: list[int] = []
    for dim, count in split.items():
        offsets += cuts.get(dim) or ceil_cuts(shape[dim] if shape is not None else 0, count)
    return f" sharded_dims_offsets = {offsets}"


def _looks_like(text: str) -> bool:
    if text.startswith(PREFIX):
        return KEYWORD.search(text) is not None
    return re.match(r"(%[\w.$-]+\s*=\s*)?(shard|mesh)\.sharding\b|(@\S+\s+)?split_axes\b", text) is not None


NOTATION = Notation(
    "shard",
    "upstream MLIR, `shard.sharding @g split_axes = [[0], []]`, and its older `mesh` forms",
    _looks_like,
    parse,
    print_sharding,
)
