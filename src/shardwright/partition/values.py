"""A value of the propagated program and its versions: the layouts that it is brought into, and from which it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.errors import ShardingError
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.decisions import Fresh, Layout, Reshard, Version
from shardwright.partition.edges import usable
from shardwright.partition.proposals import Intended, Source
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import Step, ToUnreduced, layouts_after

__all__ = ["State", "Value", "Values", "intended"]


class State:
    """In which layouts a value exists: one object for all values of which that is the same, so that `is` tells it.

    Attributes:
        versions: The layouts, as first computed first, each under itself: equal ones are one object from here on.
        source: Those from which others can be made; none for what any device makes for itself.
    """

    __slots__ = ("_more", "is_fresh", "source", "versions")

    def __init__(self, is_fresh: bool, layouts: Source = ()) -> None:
        """The state of values with these versions, or, with none, before the first."""
        self.is_fresh = is_fresh
        self.versions = dict(zip(layouts, layouts, strict=True))
        self.source: Source = () if is_fresh else layouts
        self._more: dict[TensorSharding, State] = {}

    def plus(self, layout: TensorSharding) -> State:
        """The state with one more version; this one where there is that version."""
        more = self._more.get(layout)
        if more is None:
            if layout in self.versions:
                return self
            more = self._more[layout] = State(self.is_fresh, (*self.versions, layout))
        return more


class Value:
    """A value as ops read it: the same data in several layouts.

    Attributes:
        number: The value that decisions name: that of the operand for what a request for a layout gives.
        type: Global type.
        target: The sharding propagation gave it (`None` for what is not a tensor).
        uses: How many operands read it.
        fresh_from: For constants and the like, which are computed in any layout with no communication: what they are
            computed from, a scalar or nothing. Else `None`.
    """

    __slots__ = ("_states", "fresh_from", "number", "target", "type", "uses")

    def __init__(
        self,
        number: int,
        type: TensorType,
        target: Layout,
        uses: int,
        states: Mapping[int, State],
        fresh_from: tuple[Value, ...] | None = None,
    ) -> None:
        """The value called `number` in `states`."""
        self.number = number
        self.type = type
        self.target = target
        self.uses = uses
        self.fresh_from = fresh_from
        self._states = states

    @property
    def versions(self) -> Mapping[TensorSharding, TensorSharding]:
        """Its layouts so far: see `State`."""
        return self._states[self.number].versions

    @property
    def source(self) -> Source:
        """The layouts it exists in; none for what can be made in any."""
        return self._states[self.number].source

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return self.type.bytes // self.type.elements if self.type.elements else 0


class Values:
    """Decides how values come into the layouts that ops need, each layout once for all that need it.

    Inside a region new layouts are known only until its end: they are computed there.

    Attributes:
        states: The state of each value so far.
    """

    def __init__(self, mesh: Mesh, made_of: Mapping[tuple[int, TensorSharding], TensorSharding] | None = None) -> None:
        """Nothing made yet; scalars are wanted whole on `mesh`.

        Arguments:
            mesh: The mesh.
            made_of: Where those who ask know what others will ask for: versions of values, with the version that each
                is to be made of, made first itself. All others are made of the cheapest there is.
        """
        self.mesh = mesh
        self.made_of = made_of
        self.hardware = current_hardware()
        self.states: dict[int, State] = {}
        self._computed = State(is_fresh=False), State(is_fresh=False)
        self._fresh, self._made = State(is_fresh=True), State(is_fresh=True)
        self._replaced: list[tuple[int, State]] = []
        self._new: list[Version] = []

    @property
    def fresh(self) -> State:
        """The state of what any device makes for itself and nobody has made yet."""
        return self._fresh

    def begin(self, states: Mapping[int, State]) -> None:
        """Begin anew, with the states of some values."""
        self.states = dict(states)
        self._replaced.clear()
        self._new.clear()

    @contextmanager
    def region(self) -> Iterator[None]:
        """A region, at whose end the versions made in it are forgotten."""
        outer, self._replaced = self._replaced, []
        yield
        for number, state in reversed(self._replaced):
            self.states[number] = state
        self._replaced = outer

    def define(self, number: int, layout: Layout, uses: int, is_fresh: bool = False) -> None:
        """Say how a value lies first, if it is a tensor that exists, and how many operands read it.

        A partial one that is read once has a state of its own: it may pass through its reader.
        """
        once = layout is not None and bool(layout.partial) and uses == 1
        state = self._fresh if is_fresh else self._computed[once]
        self.states[number] = state if layout is None else state.plus(layout)

    def make_at_uses(self, number: int, operands: Sequence[int]) -> None:
        """Say that any device makes a value for itself: of these, which tells it from what is made of none."""
        self.states[number] = self._made if operands else self._fresh

    def add(self, number: int, layout: TensorSharding) -> None:
        """Say that a value has one more version; of two that lie alike the first one stays."""
        state = self.states[number]
        more = state.plus(layout)
        if more is not state:
            self.become(number, more)

    def become(self, number: int, state: State) -> None:
        """Say in which state a value is, of which there are more versions."""
        self._replaced.append((number, self.states[number]))
        self.states[number] = state

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
        state = self.states[value.number]
        if state.source and state.source[0] is needed:  # nearly always
            return needed
        version = state.versions.get(needed)
        if version is not None:
            return version
        if needed.partial and not usable(value.source, needed):
            return self._contribute(value, needed)
        if value.fresh_from is not None:
            return self._make(value, value.fresh_from, needed)
        if self.made_of is None and self._reduces_for_all(value, needed):
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
        self.add(value.number, needed)
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
        first, *others = usable(value.source, needed)
        before = self.made_of.get((value.number, needed)) if self.made_of else None
        if before is not None and usable(value.source, before):  # it may have been reduced behind the op that made it
            first = self.bring(value, before) or first
        elif others:
            first = min((first, *others), key=lambda version: self._price(value, version, needed))
        return self._take(value, first, self._plan(value, first, needed).steps)

    def _take(self, value: Value, source: TensorSharding, steps: tuple[Step, ...]) -> TensorSharding:
        """Take steps from a version; the last layout that is passed through."""
        self._new.append(Reshard(value.number, source, steps))
        for layout in layouts_after(source, steps):
            self.add(value.number, layout)
            source = layout
        return source


def intended(values: Sequence[Value], sources: Sequence[Source]) -> Intended:
    """How operands shall lie of which there are only parts of a sum yet, where other ops read them too."""
    return tuple(
        [
            (i, value.target)
            for i, (value, source) in enumerate(zip(values, sources, strict=True))
            if source and source[0].partial and value.uses > 1 and value.target is not None and any(value.target.axes)
            if all(layout.partial for layout in source)
        ]
    )
