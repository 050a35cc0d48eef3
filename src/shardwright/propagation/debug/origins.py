"""The annotation that each axis of each value came from, as Shardy keeps it while it propagates."""

from __future__ import annotations

from shardwright.axes import AxisRef
from shardwright.ir.graph import Op
from shardwright.ir.ops import MANUAL
from shardwright.propagation.givers import new_axes
from shardwright.propagation.recording import RecordedStep, Recording
from shardwright.propagation.working import CONSTRAINT
from shardwright.sharding import TensorSharding

__all__ = ["Origins"]


class Origins:
    """Where axes came from.

    Attributes:
        names: The names of the annotations that ops hold.
        of_value: Value that holds a sharding → axis → name of the annotation.
    """

    def __init__(self, record: Recording) -> None:
        """Name the annotations, then follow the recorded steps."""
        self.record = record
        self.working = record.working
        self.names: dict[Op, str] = {}
        self.of_value: dict[int, dict[AxisRef, str]] = {}
        self._own: dict[int, str] = {}
        self._initial = record.initial_shardings()
        self._constraints()
        self._manual_computations()
        self._boundary()
        self._others()
        for event in record.events:
            if isinstance(event, RecordedStep):
                self._follow(event)

    def own(self, value: int) -> str:
        """The name of the annotation that stands on the op that makes a value; empty where there is none."""
        return self._own.get(value, "")

    # The annotations

    def _say(self, value: int, sharding: TensorSharding | None, name: str) -> None:
        if sharding is None:
            return
        axes = self.of_value.setdefault(self.working.holder_of(value), {})
        for axis in sharding.used_axes:
            axes.setdefault(axis, name)

    def _constraints(self) -> None:
        constraints = [op for op in self.record.ops if op.name == CONSTRAINT]
        for number, op in enumerate(constraints):
            name = self.names[op] = self._own[op.results[0]] = f"constraint_{number}"
            self._say(op.results[0], self._initial[op.results[0]], name)
            source = self.working.holder_of(op.operands[0])
            self._say(source, self._initial[source], name)

    def _manual_computations(self) -> None:
        edges = {(edge.parent, edge.inward, edge.index): edge for edge in self.working.edges.values()}
        inner_first = self.working.block.walk(regions_first=True)
        for number, op in enumerate(op for op in inner_first if op.name == MANUAL):
            name = self.names[op] = f"mc_{number}"
            for index in range(len(op.operands)):
                edge = edges.get((op, True, index))
                if edge is not None:
                    own = self._own[edge.value] = f"{name}_input: {index}"
                    self._say(edge.value, edge.boundary, own)
                    source = self.working.holder_of(edge.sources[0])
                    self._say(source, self._initial[source], own)
            for index in range(len(op.results)):
                edge = edges.get((op, False, index))
                if edge is not None:
                    own = self._own[edge.value] = f"{name}_output: {index}"
                    self._say(edge.value, edge.boundary, own)

    def _boundary(self) -> None:
        block = self.working.block
        for index, value in enumerate(block.arguments):
            self._say(value, self._initial[value], f"input: {index}")
        for index, value in enumerate(block.terminator.operands):
            self._say(value, self.record.initial_result(index), f"output: {index}")

    def _others(self) -> None:
        """Ops that hold a sharding themselves, which Shardy does not count among the annotations.

        Those that tell of origins already got their sharding from a propagation before this one.
        """
        number = 0
        for op in self.record.ops:
            if op.signature.text("sdy.sharding_origins") is not None:
                continue
            values = [value for value in op.results if self._is_unnamed(value)]
            if not values:
                continue
            name = f"annotation_{number}"
            number += 1
            self.names.setdefault(op, name)
            for value in values:
                self._own.setdefault(value, name)
                self._say(value, self._initial[value], name)

    def _is_unnamed(self, value: int) -> bool:
        sharding = self._initial[value]
        if sharding is None or self.working.holder_of(value) != value:
            return False
        known = self.of_value.get(value, {})
        return any(axis not in known for axis in sharding.used_axes)

    # The steps

    def _follow(self, step: RecordedStep) -> None:
        count = len(step.table.rule.operands)
        held = [value if value >= 0 else step.places[0] for value in step.places]
        for axis, source, target in new_axes(step):
            origin = self._origin(held[source.number + (count if source.is_result else 0)], axis)
            if origin is not None:
                value = held[target.number + (count if target.is_result else 0)]
                for member in self.record.group_of(value):
                    self.of_value.setdefault(member, {}).setdefault(axis, origin)

    def _origin(self, value: int, axis: AxisRef) -> str | None:
        axes = self.of_value.get(value, {})
        if axis in axes:
            return axes[axis]
        return next((name for other, name in axes.items() if other.contains(axis) or axis.contains(other)), None)
