"""One sharding as PyTorch's DTensor writes it: a placement for every dimension of the device mesh.

    [Shard(0), Replicate(), Partial(sum)]           also Shard(dim=0), S(0), R, P(sum), (…) for […]
    [_StridedShard(dim=0, sf=2), Shard(0)]

Each mesh dimension in turn cuts what the ones before it left, as `torch.chunk` does: a plain `Shard` takes the major
end of a dimension. `_StridedShard` with a split factor cuts below that many pieces, which later mesh dimensions share
out: the second text is the model's `[{b, a}]` on a mesh `a, b` with `b=2`. Chunks of chunks of an uneven dimension are
not always the model's (5 over 2, then 2: 2, 1, 1, 1, not 2, 2, 1, 0); these are read as explicit offsets. Without a
shape to print for, dimensions are taken to divide.

Source: `torch.distributed.tensor`, placement_types.py (Shard, _StridedShard, Partial, Replicate).
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import NoReturn

from shardwright.axes import AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_scanner import CallScanner
from shardwright.notation.notation import Notation, Shape
from shardwright.notation.shard.sharding import ceil_cuts
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.words import counted

__all__ = ["Placement", "parse", "placements_of", "print_sharding"]

_KINDS = {"avg": "average", "band": "and", "bor": "or", "bxor": "xor"} | {
    k: k for k in ("sum", "max", "min", "product")
}
_WORDS = {"S": "Shard", "R": "Replicate", "P": "Partial", "_S": "_StridedShard", "StridedShard": "_StridedShard"}
_START = re.compile(
    r"[\[(]\s*(?:\]\s*$|(?:Shard|S|Partial|P|_MaskPartial|MaskP|_StridedShard|StridedShard|_S)\s*\(|(?:Replicate|R)\b)"
)


@dataclass(frozen=True, slots=True)
class Placement:
    """What one mesh dimension does: shard tensor dimension `dim` below `factor` pieces, await `kind`, or nothing."""

    dim: int | None = None
    factor: int = 1
    kind: str = ""

    @property
    def reduce_op(self) -> str:
        """What torch calls the kind of reduction; empty where none is awaited."""
        return next((text for text, kind in _KINDS.items() if kind == self.kind), "")

    def __str__(self) -> str:
        """As torch writes it: `Shard(0)`, `Replicate()`, `Partial(sum)`, `_StridedShard(dim=0, sf=2)`."""
        if self.kind:
            return f"Partial({self.reduce_op})"
        if self.dim is None:
            return "Replicate()"
        return f"_StridedShard(dim={self.dim}, sf={self.factor})" if self.factor > 1 else f"Shard({self.dim})"


@dataclass(frozen=True, slots=True)
class _Digit:
    """A factor of a dimension's index: held by part of a mesh axis, or still free (`axis` is `None`)."""

    size: int
    axis: AxisRef | None = None


def parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    """Placements, one per axis of `mesh`, of a tensor of `shape`.

    Raises:
        ShardingError: malformed text, no mesh or shape, another number of placements than axes, a dimension that the
            tensor does not have, or strided shards that leave a device more than one run of elements.
    """
    placements = _read(CallScanner(text))
    if mesh is None or shape is None:
        missing = "mesh" if mesh is None else "shape"
        raise ShardingError(
            f"the {missing} is not known to {text[:200]!r}",
            cause="placements name neither axes nor the dimensions that are not split",
            remedy=f"give the {missing}",
        )
    if len(placements) != len(mesh.axes):
        raise ShardingError(
            f"{len(placements)} placements are given on a mesh of {counted(len(mesh.axes), 'axis')}",
            cause=f"each axis of {mesh!r} has its placement, Replicate() if it does nothing",
            remedy=f"give {counted(len(mesh.axes), 'placement')}",
        )
    return _sharding(placements, shape, mesh)


def _read(scan: CallScanner) -> list[Placement]:
    closing = {"[": "]", "(": ")"}.get(scan.peek())
    if closing is None:
        scan.refuse("expected [")
    scan.take()
    placements = scan.separated(closing, lambda: _placement(scan), trailing=True)
    scan.end()
    return placements


def _placement(scan: CallScanner) -> Placement:
    if scan.peek() in ("_MaskPartial", "MaskP"):
        scan.refuse(
            "a masked partial tensor holds values that count for nothing, which a layout cannot tell apart",
            "reduce it first: redistribute to Replicate() or Partial(sum)",
        )
    word = _WORDS.get(scan.peek(), scan.peek())
    if word not in _WORDS.values():
        scan.refuse("expected Shard(dim), Replicate(), Partial(kind) or _StridedShard(dim=…, sf=…)")
    bare = scan.take() == "R" and scan.peek() != "("
    if bare:
        return Placement()
    scan.take("(")
    placement = Placement()
    if word == "Partial":
        placement = Placement(kind=_kind(scan))
    elif word == "Shard":
        placement = Placement(_argument(scan, "dim"))
    elif word == "_StridedShard":
        dim = _argument(scan, "dim")
        scan.take(",")
        placement = Placement(dim, _argument(scan, "sf", "split_factor"))
        if placement.factor < 1:
            scan.refuse("the split factor is below 1", "give a factor of at least 1")
    scan.take(")")
    return placement


def _argument(scan: CallScanner, *names: str) -> int:
    if scan.peek() in names:
        scan.take()
        scan.take("=")
    return scan.integer()


def _kind(scan: CallScanner) -> str:
    if scan.peek() == ")":
        return "sum"
    if scan.accept("reduce_op"):
        scan.take("=")
    word = scan.peek().strip("\"'")
    if word not in _KINDS:
        scan.refuse(f"no such kind of partial tensor here, known are {', '.join(_KINDS)}")
    scan.take()
    return _KINDS[word]


def _sharding(placements: list[Placement], shape: Shape, mesh: Mesh) -> TensorSharding:
    digits: list[list[_Digit]] = [[] for _ in shape]
    strided: set[int] = set()
    partial: list[Partial] = []
    for placement, (name, size) in zip(placements, mesh.axes, strict=True):
        if placement.kind:
            partial.append(Partial(mesh.axis(name), placement.kind))
        if placement.dim is None:
            continue
        if not -len(shape) <= placement.dim < len(shape):
            raise ShardingError(
                f"there is no tensor dimension {placement.dim} to shard over {name!r}",
                cause=f"the tensor has {counted(len(shape), 'dimension')}",
                remedy="name a dimension of the tensor, counted from 0",
            )
        dim = placement.dim % len(shape)
        digits[dim] = _assign(digits[dim], mesh.axis(name), placement.factor, (name, size))
        if placement.factor > 1:
            strided.add(dim)
    dims = tuple(_dimension(dim, held) for dim, held in enumerate(digits))
    sharding = TensorSharding(mesh, dims, partial=tuple(partial)).closed()
    sharding.check(shape)
    uneven = [dim for dim, entry in enumerate(dims) if shape[dim] % axes_size(entry.axes)]
    for dim in uneven:
        if dim in strided:
            raise ShardingError(
                f"dimension {dim} of size {shape[dim]} is sharded with strides that do not divide it",
                cause="a device then holds several runs of elements",
                remedy="pad the dimension, or shard it in mesh order with plain Shard",
            )
    cuts = {dim: _chunks(shape[dim], sharding.dims[dim]) for dim in uneven}
    odd = {dim: cut for dim, cut in cuts.items() if cut != ceil_cuts(shape[dim], axes_size(dims[dim].axes))}
    return replace(sharding, offsets=tuple(odd.get(dim) for dim in range(len(shape)))) if odd else sharding


def _assign(digits: list[_Digit], axis: AxisRef, factor: int, named: tuple[str, int]) -> list[_Digit]:
    """Give `axis` the free digits below the `factor` major pieces; past the last digit all is free."""
    assigned: list[_Digit] = []
    skip, rest, pre = factor, axis.size, 1
    for digit in digits:
        free = digit.size
        if digit.axis is not None or (skip == 1 and rest == 1):
            assigned.append(digit)
            continue
        kept = math.gcd(skip, free)
        taken = math.gcd(rest, free // kept) if kept == skip else 1
        if (kept != skip and kept != free) or (kept == skip and taken not in (rest, free // kept)):
            raise ShardingError(
                f"the shards of {named[0]!r}={named[1]} do not nest with those before",
                cause=f"{free} free pieces cannot be shared out with split factor {factor}",
                remedy="use split factors that are products of the sizes of later mesh dimensions",
            )
        skip, rest = skip // kept, rest // taken
        parts = (_Digit(kept), _Digit(taken, AxisRef(axis.name, pre, taken)), _Digit(free // kept // taken))
        assigned += [part for part in parts if part.size > 1]
        pre *= taken
    if skip > 1:
        assigned.append(_Digit(skip))
    if rest > 1 or axis.size == 1:
        assigned.append(_Digit(rest, AxisRef(axis.name, pre, rest)))
    return assigned


def _dimension(dim: int, digits: list[_Digit]) -> DimSharding:
    axes = [digit.axis for digit in digits if digit.axis is not None]
    if len(axes) != len(digits):
        raise ShardingError(
            f"dimension {dim} is sharded with strides that leave a device several runs of elements",
            cause="no later mesh dimension shares out the pieces above a strided shard",
            remedy="use a split factor that is the product of the later shards of this dimension",
        )
    return DimSharding(tuple(axes))


def _chunks(size: int, entry: DimSharding) -> tuple[int, ...]:
    """Where `torch.chunk`, applied axis by axis, cuts `size` elements."""
    ceil_cuts(size, axes_size(entry.axes))  # refuses more shards than can be written out
    runs = [(0, size)]
    for axis in entry.axes:
        runs = [
            (start + low, start + high)
            for start, stop in runs
            for low, high in itertools.pairwise(ceil_cuts(stop - start, axis.size))
        ]
    return (0, *(stop for _, stop in runs))


def print_sharding(sharding: TensorSharding, shape: Shape | None) -> str:
    """`[Shard(0), Replicate(), Partial(sum)]`, `_StridedShard` where axes are not in mesh order.

    Raises:
        ShardingError: what `placements_of` refuses.
    """
    return f"[{', '.join(map(str, placements_of(sharding, shape)))}]"


def placements_of(sharding: TensorSharding, shape: Shape | None) -> list[Placement]:
    """What each dimension of the device mesh does to a tensor of `shape`.

    Raises:
        ShardingError: open dimensions, priorities, halos, an axis that is used in part or in several places, a generic
            kind of partial, and uneven shards other than `torch.chunk` makes.
    """
    if any(dim.open or dim.priority for dim in sharding.dims):
        _refuse(sharding, "open dimensions or priorities", "close its dimensions, or print it as sdy")
    if any(any(halo or ()) for halo in sharding.halos or ()):
        _refuse(sharding, "halos", "print it as shard")
    if any(p.kind not in _KINDS.values() for p in sharding.partial):
        _refuse(sharding, "a generic kind of partial tensor", "name the reduction")
    sharding.check(shape)
    even = tuple(axes_size(dim.axes) for dim in sharding.dims)
    whole = replace(sharding.closed(), offsets=None, halos=None)
    placements = [_placement_of(name, whole) for name, _ in whole.mesh.axes]
    if _tidy(_sharding(placements, even, whole.mesh)) != _tidy(whole):
        _refuse(sharding, "this use of parts of mesh axes", "give the mesh an axis for each part, or print it as sdy")
    own = sharding.offsets or (None,) * sharding.rank
    sizes = shape if shape is not None else tuple(cut[-1] if cut else n for cut, n in zip(own, even, strict=True))
    made = _sharding(placements, sizes, whole.mesh).offsets or (None,) * sharding.rank
    for dim, (size, shards) in enumerate(zip(sizes, even, strict=True)):
        own_cuts, made_cuts = own[dim], made[dim]
        if own_cuts == made_cuts:
            continue
        if (own_cuts or ceil_cuts(size, shards)) != (made_cuts or ceil_cuts(size, shards)):
            _refuse(sharding, f"these uneven shards of dimension {dim}", "pad the dimension, or print it as shard")
    return placements


def _placement_of(name: str, sharding: TensorSharding) -> Placement:
    """The placement that gives `name` its place in `sharding`, if any placement does."""
    mesh = sharding.mesh
    for p in sharding.partial:
        if p.axis.name == name:
            return Placement(kind=p.kind)
    for dim, axes in enumerate(sharding.axes):
        above = list(itertools.takewhile(lambda axis: axis.name != name, axes))
        if len(above) < len(axes):
            later = [axis.size for axis in above if mesh.order[axis.name] > mesh.order[name]]
            return Placement(dim, math.prod(later) if mesh.sizes[name] > 1 else 1)
    return Placement()


def _tidy(sharding: TensorSharding) -> tuple[object, object]:
    """The layout without axes of size 1, the order of which means nothing."""
    axes = [[axis for axis in dim.axes if axis.size > 1] for dim in sharding.closed().dims]
    return axes, {p for p in sharding.partial if p.axis.size > 1}


def _refuse(sharding: TensorSharding, what: str, remedy: str) -> NoReturn:
    raise ShardingError(f"DTensor cannot express {what}", cause=f"sharding {sharding!r}", remedy=remedy)


NOTATION = Notation(
    "dtensor",
    "PyTorch DTensor, `[Shard(0), Replicate(), Partial(sum)]`",
    lambda text: _START.match(text) is not None,
    parse,
    print_sharding,
)
