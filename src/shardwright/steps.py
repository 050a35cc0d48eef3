"""The algebra of redistribution: what each collective does to a layout.

A step is a frozen value. `apply` gives the layout after it or says why it cannot be taken; what it costs, `cost.price`
tells. `attribute` names where its op in the `sdy` dialect holds its first field; empty where the result says it all.
Layouts are closed shardings with neighbouring sub-axes merged, so that there is one way to write each.

    >>> from shardwright.mesh import Mesh
    >>> mesh = Mesh(x=2, y=4)
    >>> before = TensorSharding.of(mesh, [["x", "y"], []])
    >>> step = AllToAll(((((mesh.axis("y"),)), 0, 1),))
    >>> step.apply(before)
    [{x}, {y}]

Conditions are those of the `sdy` dialect's collective ops, which also checks what we emit. Where a tensor is partial
with several reduction kinds, the minor-most axis is reduced first: `max{x} sum{y}` is the max over x of sums over y.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shardwright.axes import Axes, AxisRef, axes_size, decompose, merge_axes, overlaps_any, subtract_axes
from shardwright.errors import ShardingError
from shardwright.memo import memoize
from shardwright.routes import Route
from shardwright.sharding import Partial, TensorSharding, same_grid, without_idle

__all__ = [
    "AllGather",
    "AllReduce",
    "AllSlice",
    "AllToAll",
    "CollectivePermute",
    "MOST_PARTS",
    "MOVING",
    "NAMED",
    "ReduceScatter",
    "Send",
    "ShardedToUnreduced",
    "Step",
    "ToUnreduced",
    "is_in_sdy",
    "layouts_after",
    "local_bytes",
    "parts_between",
]


@dataclass(frozen=True, slots=True)
class AllSlice:
    """Each device keeps a part of what it holds: `axes` are appended to each dimension. Sends nothing."""

    attribute: ClassVar[str] = "slicing_axes"

    axes: tuple[Axes, ...]

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after; ShardingError where an axis is in use already."""
        after = [held + new for held, new in zip(before.axes, _per_dim(self, before), strict=True)]
        return _layout(self, before, after, before.partial)


@dataclass(frozen=True, slots=True)
class AllGather:
    """Devices along `axes`, the minor-most ones of each dimension, exchange their parts: all hold all of them."""

    attribute: ClassVar[str] = "gathering_axes"

    axes: tuple[Axes, ...]

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after; ShardingError where `axes` are not the last ones of their dimensions."""
        gathered = _per_dim(self, before)
        after = [_without_suffix(self, held, gone) for held, gone in zip(before.axes, gathered, strict=True)]
        return _layout(self, before, after, before.partial)


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Moves axes from the ends of some dimensions to the ends of others, all in one exchange.

    Attributes:
        moves: `(axes, source dimension, target dimension)`. A dimension may give axes to several others, or take them
            from several, one after the other in the order of the moves, but not both: its shards would not be cut alike
            for all who read them. Where no dimension is named twice, source dimensions ascend, as `sdy` has it.
    """

    attribute: ClassVar[str] = "params"

    moves: tuple[tuple[Axes, int, int], ...]

    @classmethod
    def between(cls, before: Sequence[Axes], after: Sequence[Axes]) -> AllToAll:
        """The exchange after which dimensions split by `before` are split by `after`.

        Both are cut alike, and every dimension begins with what it keeps: of all it has, or of all that it will have.
        """
        sources = {axis: dim for dim, axes in enumerate(before) for axis in axes[len(after[dim]) :]}
        runs: list[tuple[list[AxisRef], int, int]] = []
        for target, axes in enumerate(after):
            for axis in axes[len(before[target]) :]:
                source = sources[axis]
                had = before[source]
                if runs and runs[-1][1:] == (source, target) and had.index(axis) == had.index(runs[-1][0][-1]) + 1:
                    runs[-1][0].append(axis)
                else:
                    runs.append(([axis], source, target))
        step = cls(tuple([(merge_axes(tuple(axes)), source, target) for axes, source, target in runs]))
        return cls(tuple(sorted(step.moves, key=lambda move: move[1]))) if step.names_once else step

    @classmethod
    def leading(cls, before: Sequence[Axes], after: Sequence[Axes]) -> AllToAll | None:
        """The exchange from one split of a tensor's dimensions to another; `None` where there is none."""
        try:
            parts = decompose((*before, *after))
        except ShardingError:  # sub-axes that cannot be used together
            return None
        early, late = (
            [tuple(part for axis in axes for part in parts[axis]) for axes in lists] for lists in (before, after)
        )
        keeps = all(old == new[: len(old)] or new == old[: len(new)] for old, new in zip(early, late, strict=True))
        moves = sorted(itertools.chain(*early)) == sorted(itertools.chain(*late)) and early != late
        return cls.between(early, late) if keeps and moves else None

    @property
    def names_once(self) -> bool:
        """Whether no dimension is named twice, which is all that `sdy` has an op for."""
        named = [dim for _, source, target in self.moves for dim in (source, target)]
        return len(set(named)) == len(named)

    def leaving(self, dim: int, held: Axes) -> tuple[int, ...]:
        """The numbers of the moves from `dim`, which is split by `held`, in the order of their axes there."""
        numbers = [number for number, (axes, source, _) in enumerate(self.moves) if source == dim and axes]
        return tuple(sorted(numbers, key=lambda number: _place_in(held, self.moves[number][0][0])))

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after; ShardingError for axes that are not last, or dimensions out of order or on both sides."""
        sources = [source for _, source, _ in self.moves]
        targets = [target for _, _, target in self.moves]
        is_in_order = sources == sorted(sources) or not self.names_once
        if not self.moves or not is_in_order or not set(sources).isdisjoint(targets):
            cause = "each dimension may be named once, or more often on one side; sources named once must ascend"
            raise _invalid(self, before, cause)
        if not all(0 <= dim < before.rank for dim in (*sources, *targets)):
            raise _invalid(self, before, f"a dimension is not one of {before.rank}")
        after = list(before.axes)
        for source in dict.fromkeys(sources):
            gone = (axis for number in self.leaving(source, after[source]) for axis in self.moves[number][0])
            after[source] = _without_suffix(self, after[source], tuple(gone))
        for axes, _, target in self.moves:
            after[target] = after[target] + axes
        return _layout(self, before, after, before.partial)


@dataclass(frozen=True, slots=True)
class CollectivePermute:
    """Each device hands what it holds to another, as it is; or in equal parts to several, one after the other.

    As it is where every dimension keeps its number of shards; it may then go to a mesh with the same axes and another
    device order. In parts where only the product of these numbers stays.
    """

    attribute: ClassVar[str] = ""

    target: TensorSharding

    def parts(self, before: TensorSharding) -> int:
        """In how many parts devices hand over what they hold, and so how many collectives that is; 0 where in none."""
        counts = [(axes_size(old), axes_size(new)) for old, new in zip(before.axes, self.target.axes, strict=True)]
        if math.prod(old for old, _ in counts) != math.prod(new for _, new in counts):
            return 0
        return parts_between(counts)

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after, `target`; ShardingError where shard counts, partial axes or meshes do not agree."""
        target = self.target
        if target.rank != before.rank or not same_grid(before.mesh, target.mesh):
            raise _invalid(self, before, "ranks or mesh axes differ")
        parts = self.parts(before)
        if not 1 <= parts <= MOST_PARTS or (parts > 1 and before.mesh != target.mesh):
            raise _invalid(self, before, "a dimension would change its number of shards to one that does not fit")
        if without_idle(before.closed().partial) != without_idle(target.closed().partial):
            raise _invalid(self, before, "the partial axes would change")
        target.check()
        return target.closed()


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combines the contributions of devices along `axes`, in mesh order; all hold the result."""

    attribute: ClassVar[str] = "reduction_axes"

    axes: Axes
    kind: str = "sum"

    @property
    def reduced(self) -> Axes:
        """The axes along which contributions are combined."""
        return self.axes

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after; ShardingError where the tensor is not partial so, or the order is not the mesh's."""
        if before.mesh.in_order(self.axes) != self.axes:
            raise _invalid(self, before, "reduction axes must be in mesh order and merged")
        partial = _reduced(self, before, self.axes, self.kind)
        return _layout(self, before, before.axes, partial)


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Combines contributions along `axes`, each device keeping a part: `axes` are appended to each dimension."""

    attribute: ClassVar[str] = "reduce_scatter_axes"

    axes: tuple[Axes, ...]
    kind: str = "sum"

    @property
    def reduced(self) -> Axes:
        """The axes along which contributions are combined."""
        return tuple(axis for of_dim in self.axes for axis in of_dim)

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after; ShardingError where the tensor is not partial along `axes`."""
        partial = _reduced(self, before, self.reduced, self.kind)
        after = [held + new for held, new in zip(before.axes, _per_dim(self, before), strict=True)]
        return _layout(self, before, after, partial)


@dataclass(frozen=True, slots=True)
class ToUnreduced:
    """Makes contributions of a whole: the first device along `axes` keeps what it holds, the others give what changes
    nothing, zeros to a sum.

    Sends nothing. No plan takes this step; a program does where contributions are asked for that nothing made.
    """

    attribute: ClassVar[str] = "axes"

    axes: Axes
    kind: str = "sum"

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after, partial along `axes`; ShardingError where one is in use already."""
        made = (Partial(axis, self.kind) for axis in self.axes)
        return _layout(self, before, before.axes, (*before.partial, *made))


@dataclass(frozen=True, slots=True)
class ShardedToUnreduced:
    """Makes contributions to a sum of parts: each device gets zeros around what it holds. No plan takes this step."""

    attribute: ClassVar[str] = "axes"

    axes: tuple[Axes, ...]

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout after, partial along `axes`; ShardingError where they are not the last of their dimensions."""
        parted = _per_dim(self, before)
        after = [_without_suffix(self, held, gone) for held, gone in zip(before.axes, parted, strict=True)]
        made = map(Partial, before.mesh.in_order(itertools.chain(*parted)))
        return _layout(self, before, after, (*before.partial, *made))


@dataclass(frozen=True, slots=True)
class Send:
    """Some devices hand what they hold to others, those without a sender get zeros: the tensor becomes another one.

    So it is no way between layouts, no plan takes it, and `sdy` has no op for it: it stands inside an op.

    Attributes:
        axes: The axes by whose index shards are numbered; all devices that differ in others do the same.
        routes: Which shards go where. No device is the sender, nor the receiver, of two.
        is_opposite: Whether one that goes the other way along the line of shards is on its way meanwhile, and neither
            needs the other: so the next rows on both sides come at once.
    """

    axes: Axes
    routes: tuple[Route, ...]
    is_opposite: bool = False

    def apply(self, before: TensorSharding) -> TensorSharding:
        """The layout of the other tensor: that of the one."""
        return before


MOVING: dict[str, type[Any]] = {
    "all_gather": AllGather,
    "all_reduce": AllReduce,
    "all_slice": AllSlice,
    "all_to_all": AllToAll,
    "collective_permute": CollectivePermute,
    "reduce_scatter": ReduceScatter,
}
"""The steps between layouts of the same data, by the names that their ops have in the `sdy` dialect."""

NAMED = MOVING | {"replicated_to_unreduced": ToUnreduced, "sharded_to_unreduced": ShardedToUnreduced}
"""All steps, by the names of their ops."""

MOST_PARTS = 16
"""In how many parts a permute hands over what devices hold at most: in more, an all_to_all comes first."""

_PerDim = AllSlice | AllGather | ReduceScatter | ShardedToUnreduced
Step = _PerDim | AllToAll | CollectivePermute | AllReduce | ToUnreduced
"""Any step between layouts."""


def is_in_sdy(step: Step, before: TensorSharding) -> bool:
    """Whether `sdy` has an op for a step: its all_to_all names no dimension twice, its permute has no parts."""
    if isinstance(step, CollectivePermute):
        return step.parts(before) == 1
    return not isinstance(step, AllToAll) or step.names_once


@memoize
def layouts_after(before: TensorSharding, steps: tuple[Step, ...]) -> tuple[TensorSharding, ...]:
    """The layout after each of `steps`, taken one after the other from `before`."""
    layouts: list[TensorSharding] = []
    for step in steps:
        before = step.apply(before)
        layouts.append(before)
    return tuple(layouts)


def local_bytes(shape: Sequence[int], element_bytes: int, sharding: TensorSharding) -> int:
    """Bytes one device holds of a tensor of `shape`."""
    return math.prod(sharding.local_shape(shape)) * element_bytes


def parts_between(counts: Iterable[tuple[int, int]]) -> int:
    """Of how many parts, each of one shard, one of the other layout is made; `counts` are each dimension's in both.

    >>> parts_between([(4, 2), (2, 4)]), parts_between([(6, 4), (4, 6)])
    (2, 6)
    """
    return math.prod([old // math.gcd(old, new) for old, new in counts])


def _per_dim(step: _PerDim, before: TensorSharding) -> tuple[Axes, ...]:
    if len(step.axes) != before.rank:
        raise _invalid(step, before, f"axes are given for {len(step.axes)} dimensions of {before.rank}")
    return step.axes


def _without_suffix(step: Step, axes: Axes, suffix: Axes) -> Axes:
    """`axes` without their last ones, `suffix`, which may begin within an axis."""
    rest = list(merge_axes(axes))
    for gone in reversed(merge_axes(suffix)):
        last = rest.pop() if rest else AxisRef("", 1, 1)
        if last == gone:
            continue
        if not last.contains(gone) or last.end != gone.end or gone.pre % last.pre:
            raise ShardingError(f"{step!r} does not remove the minor-most axes of a dimension sharded by {axes!r}")
        rest.append(AxisRef(last.name, last.pre, gone.pre // last.pre))
    return tuple(rest)


def _place_in(axes: Axes, part: AxisRef) -> tuple[int, int]:
    """What sorts parts of `axes` from major to minor; those that are no part of them come first."""
    return next((index for index, axis in enumerate(axes) if axis.contains(part)), -1), part.pre


def _reduced(step: AllReduce | ReduceScatter, before: TensorSharding, axes: Axes, kind: str) -> tuple[Partial, ...]:
    """What remains partial after reducing `axes` with `kind`."""
    partial = before.closed().partial
    reducible = tuple(p.axis for p in _innermost(partial, kind))
    for index, axis in enumerate(axes):
        if overlaps_any(axis, axes[:index]):
            raise _invalid(step, before, f"axis {axis.name!r} is named twice")
        if not any(held.contains(axis) for held in reducible):
            raise _invalid(step, before, "it is not partial so along these axes, or another kind must be reduced first")
    return tuple(Partial(rest, p.kind) for p in partial for rest in subtract_axes((p.axis,), axes))


def _innermost(partial: Sequence[Partial], kind: str) -> Iterator[Partial]:
    """The trailing entries of `kind`: those which no other kind must precede."""
    for p in reversed(partial):
        if p.kind != kind:
            return
        yield p


def _layout(step: Step, before: TensorSharding, axes: Sequence[Axes], partial: Iterable[Partial]) -> TensorSharding:
    after = before.with_axes(axes, partial).closed()
    try:
        after.check()
    except ShardingError as error:
        raise _invalid(step, before, error.diagnostic.message) from None
    return after


def _invalid(step: Step, before: TensorSharding, cause: str) -> ShardingError:
    return ShardingError(f"{step!r} cannot be applied to {before!r}", cause=cause)
