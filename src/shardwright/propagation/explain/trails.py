"""Following an axis back from where it is to the annotation that it came from.

An axis may have come in parts: `c:(1)2` in one step and the rest of `c` in another, or from two dimensions that a
reshape made one. Each part is followed on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.axes import AxisRef, can_coexist, subtract_axes
from shardwright.ir.graph import Op
from shardwright.ir.ops import MANUAL
from shardwright.propagation.engine.projection import TensorProjection
from shardwright.propagation.explain.chain import Annotation, Chain, Link
from shardwright.propagation.explain.history import Change, History
from shardwright.propagation.givers import fresh_axes, parts, result_of
from shardwright.propagation.recording import RecordedStep, Rewritten, When
from shardwright.propagation.working import CONSTRAINT, EDGE, DataFlowEdge
from shardwright.sharding import TensorSharding

__all__ = ["chains_to", "phase_text", "region_name", "tensor_names"]

_LIMIT = 10_000
"""Links in all chains of one value; a chain is as long as the way through the program."""

_Trail = tuple[Link, Any] | None
"""The links from here on to the value asked about, the next one first."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """A part of an axis on a dimension of a place, before an event."""

    place: int
    dim: int
    axis: AxisRef
    time: int


def chains_to(history: History, place: int, time: int) -> list[Chain]:
    """How every axis on a place came there, dimension by dimension, as of before event number `time`."""
    sharding = history.at(place, time)
    chains: list[Chain] = []
    if sharding is None:
        return chains
    for dim, dim_sharding in enumerate(sharding.dims):
        for axis in dim_sharding.axes:
            chains += _follow(history, _Spot(place, dim, axis, time))
    return chains


def _follow(history: History, start: _Spot) -> Iterator[Chain]:
    stack: list[tuple[_Spot, AxisRef, _Trail]] = [(start, start.axis, None)]
    steps = 0
    while stack:
        spot, shown, trail = stack.pop()
        steps += 1
        introduced = _introduced(history, spot)
        for change, part in introduced:
            now = part if trail is None else _shown(shown, part)
            if change is None or steps > _LIMIT:
                yield _chain(start, now, _before_all(history, spot.place), trail)
                continue
            ends, more = _origin(history, change, _Spot(spot.place, spot.dim, part, change.time))
            for annotation, links in ends:
                yield _chain(start, now, annotation, _extend(trail, links))
            stack += [(onward, _shown(now, onward.axis), (link, trail)) for onward, link in reversed(more)]


def _before_all(history: History, place: int) -> Annotation:
    """Where an axis comes from that no event brought: the manual axes of an edge are in its boundary."""
    edge = history.record.working.edges.get(place)
    return history.annotation(place, edge.boundary if edge is not None else None)


def _shown(shown: AxisRef, part: AxisRef) -> AxisRef:
    """The smaller of two views of one axis: what this chain is about."""
    return part if shown.contains(part) else shown


def _extend(trail: _Trail, links: list[Link]) -> _Trail:
    for link in links:
        trail = (link, trail)
    return trail


def _chain(start: _Spot, axis: AxisRef, annotation: Annotation, trail: _Trail) -> Chain:
    links: list[Link] = []
    while trail is not None:
        links.append(trail[0])
        trail = trail[1]
    return Chain(axis, start.dim, annotation, tuple(links))


def _introduced(history: History, spot: _Spot) -> list[tuple[Change | None, AxisRef]]:
    """The changes that brought the parts of an axis to a dimension."""
    missing = [spot.axis]
    changes: list[tuple[Change | None, AxisRef]] = []
    for change in history.latest(spot.place, spot.time):
        gained = fresh_axes(_axes(change.after, spot.dim), _axes(change.before, spot.dim))
        rest: list[AxisRef] = []
        for axis in missing:
            fresh = _common(gained, axis)
            changes += [(change, part) for part in fresh]
            rest += subtract_axes((axis,), fresh) if all(can_coexist(axis, part) for part in fresh) else ()
        missing = rest
        if not missing:
            return changes
    return changes + [(None, axis) for axis in missing]


def _axes(sharding: TensorSharding | None, dim: int) -> tuple[AxisRef, ...]:
    return () if sharding is None else sharding.dims[dim].axes


def _origin(
    history: History, change: Change, spot: _Spot
) -> tuple[list[tuple[Annotation, list[Link]]], list[tuple[_Spot, Link]]]:
    """Where a change had an axis from: annotations at which chains end, or other places to follow it to."""
    event = change.event
    if isinstance(event, RecordedStep):
        return [], list(_step_sources(history, event, change, spot))
    if event.why == "constraint":
        return [(history.constraint_on(spot.place, event.after), [_constraint(history, spot)])], []
    if event.why == "group":
        link = Link("group", "sdy.sharding_group", "", "member", "member", spot.axis, spot.dim)
        for member in history.record.grouped_with(spot.place):
            if member != spot.place and _axes(history.at(member, change.time), spot.dim):
                return [], [(_Spot(member, spot.dim, spot.axis, change.time), link)]
    if event.why == "spread":
        holder = history.record.working.holder_of(spot.place)
        return [], [(_Spot(holder, spot.dim, spot.axis, change.time), _spread(history, holder, spot))]
    priority = event.priority if event.why == "priority" else 0
    return [(history.annotation(spot.place, _as_written(history, spot.place, event), priority), [])], []


def _as_written(history: History, place: int, event: Rewritten) -> TensorSharding | None:
    """The sharding as the program says it, where a later priority had hidden some of it."""
    first = history.changes[place][0]
    return first.after if event.why == "priority" else event.after


def _constraint(history: History, spot: _Spot) -> Link:
    op, index = history.constrainer(spot.place)
    name, source = (MANUAL, "in_shardings") if op.name == MANUAL else (CONSTRAINT, "result 0")
    return Link("constraint", name, history.where(op), source, f"operand {index}", spot.axis, spot.dim)


def _spread(history: History, holder: int, spot: _Spot) -> Link:
    edge = history.record.working.edges[holder]
    return Link(
        "spread", edge.parent.signature.label, history.where(edge.parent), "edge", "target", spot.axis, spot.dim
    )


def _step_sources(history: History, step: RecordedStep, change: Change, spot: _Spot) -> Iterator[tuple[_Spot, Link]]:
    outcome = result_of(step)
    mappings = step.table.rule.operands + step.table.rule.results
    if change.leader != spot.place:
        link = Link("group", "sdy.sharding_group", "", "member", "member", spot.axis, spot.dim, step.number)
        yield _Spot(change.leader, spot.dim, spot.axis, change.time + 1), link
        return
    names = tensor_names(history, step.op)
    gained = {tensor for tensor, _ in step.changes}
    seen: list[AxisRef] = []
    count = len(step.table.rule.operands)
    for part in sorted(parts(step, outcome), key=lambda part: part.tensor < count):  # results first
        if step.places[part.tensor] != spot.place or part.dim != spot.dim or part.tensor not in gained:
            continue
        for axis in _common(fresh_axes(part.after, part.before), spot.axis):
            if any(axis.overlaps(other) for other in seen):
                continue
            source = part.source if part.source is not None else _holder(outcome.before, part.factor, axis)
            if source is None or source == part.tensor:
                continue
            seen.append(axis)
            dim = next(index for index, factors in enumerate(mappings[source]) if part.factor in factors)
            link = _link(history, step, names[source], names[part.tensor], axis, spot.dim)
            yield _Spot(step.places[source], dim, axis, change.time), link


def _common(axes: tuple[AxisRef, ...], other: AxisRef) -> tuple[AxisRef, ...]:
    """The parts of `axes` that overlap `other`, cut to it; whole where the two have no common split."""
    cut = []
    for axis in axes:
        if not can_coexist(axis, other):
            cut.append(axis)
        elif axis.overlaps(other):
            low, high = max(axis.pre, other.pre), min(axis.end, other.end)
            cut.append(AxisRef(axis.name, low, high // low))
    return tuple(cut)


def _holder(tensors: Sequence[TensorProjection], factor: int, axis: AxisRef) -> int | None:
    """A tensor that has an axis for a factor, though no tensor has the whole list."""
    for index, projection in enumerate(tensors):
        split = projection.factors.get(factor)
        if split is not None and any(other.overlaps(axis) for other in split.axes):
            return index
    return None


def _link(history: History, step: RecordedStep, source: str, target: str, axis: AxisRef, dim: int) -> Link:
    phase = phase_text(step.when)
    if step.op < 0:
        return Link("return", "func.return", "", source, target, axis, dim, step.number, phase)
    op = history.record.ops[step.op]
    kind = "step"
    if op.name == EDGE:
        kind, op = "edge", history.record.working.edges[op.results[0]].parent
    return Link(kind, op.signature.label, history.where(op), source, target, axis, dim, step.number, phase)


def phase_text(when: When) -> str:
    """`priority 0, round 3, aggressive`."""
    return f"priority {when.priority}, round {when.phase.round + 1}, {when.phase.strategy.value}"


def tensor_names(history: History, position: int) -> list[str]:
    """What users call the operands and results of an op, those of an edge by where they stand around its parent."""
    if position < 0:
        return [f"operand {~position}", f"result {~position} of main"]
    op = history.record.ops[position]
    if op.name == EDGE:
        return _edge_names(history.record.working.edges[op.results[0]])
    return [f"operand {n}" for n in range(len(op.operands))] + [f"result {n}" for n in range(len(op.results))]


def _edge_names(edge: DataFlowEdge) -> list[str]:
    names = []
    for reader in edge.readers:
        if reader is edge.parent:
            names.append(f"operand {edge.index}")
        else:
            region = next(n for n, block in enumerate(edge.parent.regions) if block.terminator is reader)
            names.append(f"value {edge.index} returned by {region_name(edge.parent, region)}")
    names.append(f"argument {edge.index} of its body" if edge.inward else f"result {edge.index}")
    return names


def region_name(op: Op, number: int) -> str:
    """What users call a region of an op: `its body`, `its condition`, `region 2`."""
    if op.name == "stablehlo.while":
        return ("its condition", "its body")[number]
    return "its body" if len(op.regions) == 1 else f"region {number}"
