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
from shardwright.notation.sdy.attributes import print_axis_lists_attribute
from shardwright.notation.sdy.collectives import print_step
from shardwright.passes.module_ops import ARGUMENTS, edge_of
from shardwright.passes.module_shardings import Shardings, single
from shardwright.sharding import DimSharding, Partial, TensorSharding
from shardwright.steps import AllReduce, ToUnreduced

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
        for value, said in zip(arguments, self._shardings.of_rows(function, ARGUMENTS), strict=True):
            if edge_of(value) is None:
                self._known[value] = said

    def forget(self, value: Any) -> None:
        """The sharding of a value is another now, or the value will be gone."""
        self._known.pop(value, None)

    def reduce(self, use: Use, wanted: TensorSharding | None, at: Any) -> None:
        """Sum along the axes that the value awaits a sum along and the use does not, at an insertion point."""
        said = self.of(use.value)
        if said is None or not said.partial or not _are_sums(said, wanted):
            return
        axes = subtract_axes(said.partial_axes, () if wanted is None else wanted.partial_axes)
        if axes:
            kept = subtract_axes(said.partial_axes, axes)
            self._put(use, insert_all_reduce(use.value, axes, replace(said, partial=sums(kept, said.mesh)), at))

    def leave_unreduced(self, use: Use, wanted: TensorSharding | None, at: Any) -> bool:
        """Make those axes await a sum along which the use does and the value does not; whether there are any."""
        said = self.of(use.value)
        if said is None or wanted is None or not _are_sums(said, wanted):
            return False
        added = subtract_axes(wanted.partial_axes, said.partial_axes)
        if not added:
            return False
        dims = tuple(_before(one, other, added) for one, other in zip(said.dims, wanted.dims, strict=True))
        if tuple(dim.axes for dim in dims) != said.axes:
            used = [axis for dim in dims for axis in dim.axes]
            said = replace(said, dims=dims, replicated=subtract_axes(said.replicated, used))
            self._put(use, insert_reshard(use.value, said, at))
        parts = [_behind(other.axes, one.axes) or () for one, other in zip(said.dims, wanted.dims, strict=True)]
        fresh = subtract_axes(added, [axis for axes in parts for axis in axes])
        if fresh:
            partial = sums((*said.partial_axes, *fresh), said.mesh)
            said = replace(said, replicated=wanted.replicated, partial=partial)
            texts = print_step(ToUnreduced(said.mesh.in_order(fresh)), None, said.mesh)
            self._put(use, _insert("sdy.replicated_to_unreduced", use.value, texts, said, at))
        if any(parts):
            texts = {"axes": print_axis_lists_attribute(parts, said.mesh)}
            self._put(use, _insert("sdy.sharded_to_unreduced", use.value, texts, wanted, at))
        return True

    def reshard(self, use: Use, wanted: TensorSharding | None, at: Any) -> None:
        """Reshard unless the value is sharded alike already."""
        said = self.of(use.value)
        if _alike(said, wanted):
            return
        target = wanted or replace(_known(said), dims=(DimSharding(),) * _known(said).rank, replicated=(), partial=())
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


def _are_sums(said: TensorSharding, wanted: TensorSharding | None) -> bool:
    """Whether all that awaits reduction is a sum, on one mesh."""
    if wanted is None:
        return all(partial.kind == "sum" for partial in said.partial)
    return said.mesh == wanted.mesh and all(p.kind == "sum" for p in (*said.partial, *wanted.partial))


def _before(said: DimSharding, wanted: DimSharding, added: Axes) -> DimSharding:
    """How a dimension is split just before its axes are made to await a sum: as it is, where all it loses are such."""
    lost = _behind(wanted.axes, said.axes)
    return said if lost and all(_is_within(axis, added) for axis in lost) else wanted


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


def _alike(said: TensorSharding | None, wanted: TensorSharding | None) -> bool:
    """Whether nothing moves from one to the other; what is not said is not split."""
    if not any(sharding is not None and any(sharding.axes) for sharding in (said, wanted)):
        return True
    if said is None or wanted is None:
        return False
    return (said.mesh, said.axes, said.partial) == (wanted.mesh, wanted.axes, wanted.partial)


def _known(sharding: TensorSharding | None) -> TensorSharding:
    assert sharding is not None, "two shardings that nobody says are alike"
    return sharding
