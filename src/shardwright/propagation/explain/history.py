"""The record of a propagation by place: what each value's sharding was, when, and what changed it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.propagation.explain.chain import Annotation
from shardwright.propagation.explain.find import printed_names
from shardwright.propagation.recording import Event, RecordedStep, Recording, Rewritten
from shardwright.propagation.working import CONSTRAINT, EDGE, DataFlowEdge
from shardwright.sharding import TensorSharding

__all__ = ["Change", "History", "location_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change of the sharding of a place.

    Attributes:
        time: When: the number of the event.
        before: The sharding before.
        after: The sharding after.
        event: What changed it.
        leader: The place that the event changed, where this one followed as a member of its group.
    """

    time: int
    before: TensorSharding | None
    after: TensorSharding | None
    event: Event
    leader: int


class History:
    """Every place's changes, in order, and what the program says about each place."""

    def __init__(self, record: Recording, graph: Graph) -> None:
        """Sort the events of a record by place; `graph` gives names and source positions."""
        self.record = record
        self.graph = graph
        self.changes: dict[int, list[Change]] = {}
        self.makers: dict[int, Op] = {value: op for op in record.ops for value in op.results}
        self.positions = {op: number for number, op in enumerate(record.ops)}
        self.owners = {value: op for op in record.ops for region in op.regions for value in region.arguments}
        self.arguments = {value: index for index, value in enumerate(record.working.block.arguments)}
        for time, event in enumerate(record.events):
            if isinstance(event, RecordedStep):
                self._step(time, event)
            else:
                self._add(Change(time, event.before, event.after, event, event.place), event.place)

    @cached_property
    def printed(self) -> dict[int, str]:
        """What MLIR calls each value."""
        return {value: name for name, values in printed_names(self.graph).items() for value in values}

    def _step(self, time: int, step: RecordedStep) -> None:
        sharding = self.record.sharding
        for tensor, number in step.changes:
            leader = step.places[tensor]
            members = [leader] if leader < 0 else self.record.group_of(leader)
            for place in members:
                before = self.at(place, time) if place != leader else sharding(step.key[tensor])
                self._add(Change(time, before, sharding(number), step, leader), place)

    def _add(self, change: Change, place: int) -> None:
        self.changes.setdefault(place, []).append(change)

    def at(self, place: int, time: int) -> TensorSharding | None:
        """The sharding of a place before event number `time`."""
        changes = self.changes.get(place, [])
        index = bisect_left(changes, time, key=lambda change: change.time)
        return changes[index - 1].after if index else None

    def latest(self, place: int, time: int) -> list[Change]:
        """The changes of a place before event number `time`, the latest first."""
        changes = self.changes.get(place, [])
        return changes[: bisect_left(changes, time, key=lambda change: change.time)][::-1]

    # What the program says

    def annotation(self, place: int, sharding: TensorSharding | None, priority: int = 0) -> Annotation:
        """What the program says about a place, where `sharding` begins."""
        main = self.graph.main
        if place < 0:
            return Annotation(f"result {main.result_names[~place]}", "", sharding, priority)
        if place in self.arguments:
            return Annotation(f"argument {main.argument_names[self.arguments[place]]}", "", sharding, priority)
        op = self.makers[place] if place in self.makers else self.owners[place]
        if op.name == EDGE:
            edge = self.record.working.edges[place]
            return Annotation(_edge_annotation(edge), self.where(edge.parent), sharding, priority)
        label = CONSTRAINT if op in self.record.constraints else op.signature.label
        return Annotation(label, self.where(op), sharding, priority)

    def own_annotation(self, place: int) -> Annotation | None:
        """What the program says about a place, if it says anything."""
        first = self.changes.get(place, [None])[0]
        if first is None or not isinstance(first.event, Rewritten) or first.event.why not in ("annotation", "edge"):
            return None
        return self.annotation(place, first.after)

    def closer(self, place: int, dim: int) -> Annotation | None:
        """What closed a dimension of a place."""
        for change in self.changes.get(place, []):
            if change.after is None or change.after.dims[dim].open:
                continue
            event = change.event
            if isinstance(event, RecordedStep) or event.why == "group":
                return None
            if event.why == "constraint":
                return self.constraint_on(place, change.after)
            return self.annotation(place, change.after)
        return None

    def constraint_on(self, value: int, sharding: TensorSharding | None) -> Annotation:
        """The constraint, or the in-sharding of a manual computation, that a value was given."""
        op, index = self.constrainer(value)
        where = CONSTRAINT if op.name != MANUAL else f"in_shardings of {MANUAL}, operand {index}"
        return Annotation(where, self.where(op), sharding)

    def constrainer(self, value: int) -> tuple[Op, int]:
        """The constraint or the manual computation that gave a value its sharding, and as which operand it reads it."""
        return next(
            (op, index)
            for op in self.record.ops
            if op in self.record.constraints or op.name == MANUAL
            for index, operand in enumerate(op.operands)
            if operand == value
        )

    def where(self, op: Op) -> str:
        """Where an op comes from, or nothing."""
        return location_of(self.graph, op)


def location_of(graph: Graph, op: Op) -> str:
    """`FILE:LINE` or the location's name, or empty where nothing is known."""
    location = graph.locations[op.location]
    return str(location) if location.file or location.name else ""


def _edge_annotation(edge: DataFlowEdge) -> str:
    if edge.parent.name.startswith("sdy."):
        side = ("in_shardings", "operand") if edge.inward else ("out_shardings", "result")
        return f"{side[0]} of {edge.parent.name}, {side[1]} {edge.index}"
    return f"{edge.parent.name}, result {edge.index}"
