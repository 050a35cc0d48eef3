"""Communication between a value and one use of it: what makes of the value's sharding the one that the use wants.

    all_reduce              axes that await a sum, and are to await none
    reshard                 dimensions, before the ops below can leave them as they are
    replicated_to_unreduced axes to await a sum, of which one device is given the value and the others zeros
    sharded_to_unreduced    axes to await a sum, of which every device keeps its part and zeros around it

Only sums are known to these ops. A use that involves other kinds, or two meshes, is left as it is: what its shardings
imply stays implied.

Source: the pass insert-explicit-reshards of OpenXLA's Shardy, and the ops of its dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from shardwright.axes import Axes, AxisRef, overlaps_any, subtract_axes
from shardwright.ir.context import ir, parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.sdy.collectives import print_step
from shardwright.passes.module_ops import ARGUMENTS, edge_of
from shardwright.passes.module_shardings import Shardings, single
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.steps import AllReduce, ShardedToUnreduced, ToUnreduced

__all__ = ["Use", "UseReshards", "insert_all_reduce", "insert_reshard", "sums"]


class Use(NamedTuple):
    """One operand of an op."""

    op: Any
    number: int

    @property
    def value(self) -> Any:
        """What is used."""
        return self.op.operands[self.number]


class UseReshards:
    """Inserts communication before uses, and remembers the shardings of values."""

    def __init__(self, shardings: Shardings) -> None:
        """Read shardings by `shardings`."""
        self._shardings = shardings
        self._known: dict[Any, TensorSharding | None] = {}

    def of(self, value: Any) -> TensorSharding | None:
        """The sharding of a value."""
        if value not in self._known:
            self._known[value] = self._shardings.of(value)
        return self._known[value]

    def read_arguments(self, function: Any) -> None:
        """Read what a function says of its arguments, all at once: there may be thousands."""
        arguments = function.regions[0].blocks[0].arguments
        for value, sharding in zip(arguments, self._shardings.of_rows(function, ARGUMENTS), strict=True):
            if edge_of(value) is None:
                self._known[value] = sharding

    def forget(self, value: Any) -> None:
        """The sharding of a value is another now, or the value will be gone."""
        self._known.pop(value, None)

    def reduce(self, use: Use, target: TensorSharding | None, at: Any) -> None:
        """Sum along the axes that the value awaits a sum along and the use does not, at an insertion point."""
        sharding = self.of(use.value)
        if sharding is None or not sharding.partial or not _are_sums(sharding, target):
            return
        axes = subtract_axes(sharding.partial_axes, () if target is None else target.partial_axes)
        if axes:
            kept = subtract_axes(sharding.partial_axes, axes)
            self._put(use, insert_all_reduce(use.value, axes, replace(sharding, partial=sums(kept, sharding.mesh)), at))

    def leave_unreduced(self, use: Use, target: TensorSharding | None, at: Any) -> bool:
        """Make those axes await a sum along which the use does and the value does not; whether there are any."""
        sharding = self.of(use.value)
        if sharding is None or target is None or not _are_sums(sharding, target):
            return False
        added = subtract_axes(target.partial_axes, sharding.partial_axes)
        if not added:
            return False
        dims = tuple(_before(one, other, added) for one, other in zip(sharding.dims, target.dims, strict=True))
        if tuple(dim.axes for dim in dims) != sharding.axes:
            used = [axis for dim in dims for axis in dim.axes]
            sharding = replace(sharding, dims=dims, replicated=subtract_axes(sharding.replicated, used))
            self._put(use, insert_reshard(use.value, sharding, at))
        parts = [_behind(other.axes, one.axes) or () for one, other in zip(sharding.dims, target.dims, strict=True)]
        fresh = subtract_axes(added, [axis for axes in parts for axis in axes])
        if fresh:
            partial = sums((*sharding.partial_axes, *fresh), sharding.mesh)
            sharding = replace(sharding, replicated=target.replicated, partial=partial)
            texts = print_step(ToUnreduced(sharding.mesh.in_order(fresh)), None, sharding.mesh)
            self._put(use, _insert("sdy.replicated_to_unreduced", use.value, texts, sharding, at))
        if any(parts):
            texts = print_step(ShardedToUnreduced(tuple(parts)), None, sharding.mesh)
            self._put(use, _insert("sdy.sharded_to_unreduced", use.value, texts, target, at))
        return True

    def reshard(self, use: Use, target: TensorSharding | None, at: Any) -> None:
        """Reshard unless the value is sharded alike already."""
        sharding = self.of(use.value)
        if _alike(sharding, target):
            return
        if target is None:
            known = _known(sharding)
            target = replace(known, dims=(DimSharding(),) * known.rank, replicated=(), partial=())
        self._put(use, insert_reshard(use.value, target, at))

    def _put(self, use: Use, value: Any) -> None:
        use.op.operands[use.number] = value


def insert_all_reduce(value: Any, axes: Axes, sharding: TensorSharding, at: Any) -> Any:
    """An `sdy.all_reduce` of a value; its result."""
    return _insert("sdy.all_reduce", value, print_step(AllReduce(axes), None, sharding.mesh), sharding, at)


def insert_reshard(value: Any, sharding: TensorSharding, at: Any) -> Any:
    """An `sdy.reshard` of a value; its result."""
    return _insert("sdy.reshard", value, {}, sharding, at, "sharding")


def _insert(
    name: str, value: Any, texts: Mapping[str, str], sharding: TensorSharding, at: Any, key: str = "out_sharding"
) -> Any:
    attributes = {entry: parse_attribute(text) for entry, text in texts.items()} | {key: single(sharding)}
    op = ir.Operation.create(
        name, results=[value.type], operands=[value], attributes=attributes, loc=value.location, ip=at
    )
    return op.results[0]


def sums(axes: Axes, mesh: Mesh) -> tuple[Partial, ...]:
    """Sums along axes, in the order of the mesh, parts of one axis together."""
    return tuple(Partial(axis) for axis in mesh.in_order(axes))


def _are_sums(sharding: TensorSharding, target: TensorSharding | None) -> bool:
    """Whether all that awaits reduction is a sum, on one mesh."""
    if target is None:
        return all(partial.kind == "sum" for partial in sharding.partial)
    return sharding.mesh == target.mesh and all(p.kind == "sum" for p in (*sharding.partial, *target.partial))


def _before(dim: DimSharding, target: DimSharding, added: Axes) -> DimSharding:
    """How a dimension is split just before its axes are made to await a sum: as it is, where all it loses are such."""
    lost = _behind(target.axes, dim.axes)
    return dim if lost and all(_is_within(axis, added) for axis in lost) else target


def _behind(prefix: Axes, axes: Axes) -> Axes | None:
    """What follows `prefix` in a list of axes; `None` if the list does not begin with it."""
    rest = list(axes)
    for axis in prefix:
        if not rest or not axis.is_prefix_of(rest[0]):
            return None
        if axis == rest[0]:
            del rest[0]
        else:
            rest[0] = AxisRef(axis.name, axis.end, rest[0].size // axis.size)
    return tuple(rest)


def _is_within(axis: AxisRef, axes: Axes) -> bool:
    return overlaps_any(axis, axes) and not subtract_axes((axis,), axes)


def _alike(sharding: TensorSharding | None, target: TensorSharding | None) -> bool:
    """Whether nothing moves from one to the other; what is not said is not split."""
    if not any(either is not None and any(either.axes) for either in (sharding, target)):
        return True
    if sharding is None or target is None:
        return False
    return (sharding.mesh, sharding.axes, sharding.partial) == (target.mesh, target.axes, target.partial)


def _known(sharding: TensorSharding | None) -> TensorSharding:
    assert sharding is not None, "two shardings that nobody says are alike"
    return sharding
