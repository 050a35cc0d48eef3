"""A value of the propagated program and the layouts in which the explicit program holds it."""

from __future__ import annotations

from collections.abc import Callable

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.types import TensorType
from shardwright.partition.assign import Source, usable
from shardwright.partition.emit import collective, emit_steps
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import ToUnreduced

__all__ = ["Value", "Values"]


class Value:
    """Versions of one value: the same data in several layouts.

    Attributes:
        type: Global type.
        target: The sharding propagation gave it (`None` for what is not a tensor).
        uses: How many operands read it.
        versions: Layouts and the values that have them, as first computed first.
        make: For constants and the like: computes it in any layout, with no communication.
    """

    __slots__ = ("make", "target", "type", "uses", "versions")

    def __init__(
        self,
        type: TensorType,
        target: TensorSharding | None,
        uses: int,
        versions: list[tuple[TensorSharding | None, int]],
        make: Callable[[TensorSharding], int] | None = None,
    ) -> None:
        """A value with the versions computed so far."""
        self.type = type
        self.target = target
        self.uses = uses
        self.versions = versions
        self.make = make

    @property
    def source(self) -> Source:
        """The layouts it exists in; none for what can be made in any."""
        if self.make is not None or self.target is None:
            return ()
        return tuple([sharding for sharding, _ in self.versions if sharding is not None])

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.type.bytes // self.type.elements if self.type.elements else 0


class Values:
    """Brings values into the layouts that ops need, and remembers each layout for the next that needs it.

    Inside a region new layouts are known only until its end: they are computed there.
    """

    def __init__(self, builder: Builder) -> None:
        """Write with `builder`, whose list of ops changes from region to region."""
        self.builder = builder
        self.hardware = current_hardware()
        self._scopes: list[list[Value]] = []

    def enter(self) -> None:
        """Begin a region."""
        self._scopes.append([])

    def leave(self) -> None:
        """End a region: forget the layouts computed in it."""
        for value in reversed(self._scopes.pop()):
            value.versions.pop()

    def _remember(self, value: Value, sharding: TensorSharding, number: int) -> None:
        value.versions.append((sharding, number))
        if self._scopes:
            self._scopes[-1].append(value)

    def want(self, value: Value, needed: TensorSharding | None) -> int:
        """The value in layout `needed`, resharded from the cheapest version of it if need be."""
        if needed is None or value.target is None:
            return value.versions[0][1]
        for sharding, number in value.versions:
            if sharding == needed:
                return number
        if needed.partial and not usable(value.source, needed):
            return self._contribute(value, needed)
        if value.make is not None:
            number = value.make(needed)
            self._remember(value, needed, number)
            return number
        if self._reduces_for_all(value, needed):
            self._reshard(value, value.target)
            return self.want(value, needed)
        return self._reshard(value, needed)

    def _reduces_for_all(self, value: Value, needed: TensorSharding) -> bool:
        """Whether a partial value with several uses is better reduced to its own layout first.

        Reducing once and resharding from there is at least as cheap as reducing for each use, unless what this use
        needs lies on the way (a shard of it: reduce_scatter now, all_gather later costs what all_reduce does).
        """
        target = value.target
        assert target is not None
        source = value.source
        if value.uses < 2 or needed == target or not all(s.partial for s in source) or needed.partial:
            return False
        direct = min(self._price(value, s, needed) for s in source) + self._price(value, needed, target)
        return direct > min(self._price(value, s, target) for s in source) * (1 + 1e-9)

    def _price(self, value: Value, before: TensorSharding, after: TensorSharding) -> float:
        steps = plan(value.type.dims, value.element_bytes, before, after, self.hardware)
        return price(steps.cost, self.hardware)

    def _contribute(self, value: Value, needed: TensorSharding) -> int:
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
        whole = self.want(value, before)
        signature = collective(ToUnreduced(needed.partial_axes, kind), value.type)
        (number,) = self.builder.append(signature, (whole,), (needed,))
        self._remember(value, needed, number)
        return number

    def _reshard(self, value: Value, needed: TensorSharding) -> int:
        shape, size = value.type.dims, value.element_bytes
        sharding = min(usable(value.source, needed), key=lambda version: self._price(value, version, needed))
        number = next(number for version, number in value.versions if version == sharding)
        for passed, result in emit_steps(
            self.builder, number, sharding, plan(shape, size, sharding, needed, self.hardware).steps
        ):
            self._remember(value, passed, result)
            number = result
        return number
