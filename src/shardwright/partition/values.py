"""A value of the propagated program and its versions: the layouts that it is brought into, and from which it is."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.errors import ShardingError
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.decisions import Fresh, Layout, Reshard, Version
from shardwright.partition.edges import usable
from shardwright.partition.proposals import Source
from shardwright.partition.scope import Scope
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import Step, ToUnreduced, layouts_after

__all__ = ["Value", "Values"]


class Value:
    """Versions of one value: the same data in several layouts.

    Attributes:
        number: The value that decisions name: that of the operand for what a request for a layout gives.
        type: Global type.
        target: The sharding propagation gave it (`None` for what is not a tensor).
        uses: How many operands read it.
        versions: Its layouts, as first computed first, each under itself: equal ones are one object from here on.
        fresh_from: For constants and the like, which are computed in any layout with no communication: what they are
            computed from, a scalar or nothing. Else `None`.
    """

    __slots__ = ("fresh_from", "number", "target", "type", "uses", "versions")

    def __init__(
        self,
        number: int,
        type: TensorType,
        target: Layout,
        uses: int,
        versions: dict[TensorSharding, TensorSharding],
        fresh_from: tuple[Value, ...] | None = None,
    ) -> None:
        """A value with the versions computed so far."""
        self.number = number
        self.type = type
        self.target = target
        self.uses = uses
        self.versions = versions
        self.fresh_from = fresh_from

    @property
    def source(self) -> Source:
        """The layouts it exists in; none for what can be made in any."""
        if self.fresh_from is not None or self.target is None:
            return ()
        return tuple(self.versions)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.type.bytes // self.type.elements if self.type.elements else 0


class Values:
    """Decides how values come into the layouts that ops need, each layout once for all that need it.

    Inside a region new layouts are known only until its end: they are computed there.
    """

    def __init__(self, mesh: Mesh) -> None:
        """Nothing made yet; scalars are wanted whole on `mesh`."""
        self.mesh = mesh
        self.hardware = current_hardware()
        self.scope = Scope()
        self._new: list[Version] = []

    def read(
        self, values: Sequence[Value], layouts: Sequence[Layout]
    ) -> tuple[tuple[Version, ...], tuple[Layout, ...]]:
        """The versions made so that values are there in these layouts, and the versions that are read then."""
        read = tuple([self.bring(value, layout) for value, layout in zip(values, layouts, strict=True)])
        return self.new_versions(), read

    def new_versions(self) -> tuple[Version, ...]:
        """The versions that were made since the last call."""
        if not self._new:
            return ()
        versions, self._new = tuple(self._new), []
        return versions

    def bring(self, value: Value, needed: Layout) -> Layout:
        """The version in layout `needed`, made from the cheapest of the others if need be."""
        if needed is None or value.target is None:
            return None
        version = value.versions.get(needed)
        if version is not None:
            return version
        if needed.partial and not usable(value.source, needed):
            return self._contribute(value, needed)
        if value.fresh_from is not None:
            return self._make(value, value.fresh_from, needed)
        if self._reduces_for_all(value, needed):
            self._reshard(value, value.target)
            return self.bring(value, needed)
        return self._reshard(value, needed)

    def _reduces_for_all(self, value: Value, needed: TensorSharding) -> bool:
        """Whether a partial value with several uses is better reduced to its own layout first.

        Reducing once and resharding from there is at least as cheap as reducing for each use, unless what this use
        needs lies on the way (a shard of it: reduce_scatter now, all_gather later sends what all_reduce does). Whether
        other uses need the rest is not known: what is lost if they do is weighed against what is won if they do not.
        """
        target = value.target
        assert target is not None
        source = value.source
        if value.uses < 2 or needed == target or not all(s.partial for s in source) or needed.partial:
            return False
        here = min(self._price(value, s, needed) for s in source)
        for_all = min(self._price(value, s, target) for s in source)
        return here + self._price(value, needed, target) - for_all > for_all - here

    def _price(self, value: Value, before: TensorSharding, after: TensorSharding) -> float:
        return price(self._plan(value, before, after).cost, self.hardware)

    def _plan(self, value: Value, before: TensorSharding, after: TensorSharding) -> ReshardPlan:
        type = value.type
        return plan(type.dims, value.element_bytes, before, after, self.hardware, dtype=type.dtype)

    def _make(self, value: Value, operands: tuple[Value, ...], needed: TensorSharding) -> TensorSharding:
        outer, self._new = self._new, []
        read = tuple([self.bring(operand, replicated(self.mesh, operand.type.rank)) for operand in operands])
        before, self._new = tuple(self._new), outer
        self._new.append(Fresh(value.number, needed, before, read))
        self.scope.add(value.versions, needed, needed)
        return needed

    def _contribute(self, value: Value, needed: TensorSharding) -> TensorSharding:
        """The value as contributions where nobody made any: one device along the axes has it, the others nothing.

        Raises:
            ShardingError: they are to combine by several kinds, or by one that has no identity.
        """
        (kind, *others) = dict.fromkeys(p.kind for p in needed.partial)
        if others or kind not in REDUCTIONS:
            raise ShardingError(
                f"a complete value cannot be made {needed!r}",
                cause=f"contributions are made for one kind of reduction: {', '.join(REDUCTIONS)}",
                remedy="leave the value complete there",
            )
        before = needed.with_axes(needed.axes)
        self.bring(value, before)
        return self._take(value, before, (ToUnreduced(needed.partial_axes, kind),))

    def _reshard(self, value: Value, needed: TensorSharding) -> TensorSharding:
        sharding = min(usable(value.source, needed), key=lambda version: self._price(value, version, needed))
        return self._take(value, sharding, self._plan(value, sharding, needed).steps)

    def _take(self, value: Value, source: TensorSharding, steps: tuple[Step, ...]) -> TensorSharding:
        """Take steps from a version; the last layout that is passed through."""
        self._new.append(Reshard(value.number, source, steps))
        for layout in layouts_after(source, steps):
            self.scope.add(value.versions, layout, layout)
            source = layout
        return source
