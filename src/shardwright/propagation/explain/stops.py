"""Where the axes of a value went no further, and which axes of its neighbours did not come to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from shardwright.axes import Axes, AxisRef, overlaps_any, subtract_axes
from shardwright.ir.graph import Op
from shardwright.ir.ops import DATA_FLOW_OPS, MANUAL, RETURNS
from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.priorities import BARRIERS, flow_of
from shardwright.propagation.engine.step import common_mesh
from shardwright.propagation.engine.worklist import StepTable
from shardwright.propagation.explain.chain import Annotation, Stop
from shardwright.propagation.explain.history import History
from shardwright.propagation.explain.refusal import Case, Refusal, refusal
from shardwright.propagation.explain.trails import chains_to, tensor_names
from shardwright.propagation.explain.withheld import objection
from shardwright.propagation.givers import fresh_axes
from shardwright.propagation.recording import Rewritten
from shardwright.propagation.working import CONSTRAINT, EDGE, GROUP
from shardwright.rules.rule import identity_rule
from shardwright.sharding import TensorSharding

__all__ = ["stops_at"]

_NO_AXES_FLOW = DATA_FLOW_OPS | RETURNS | {GROUP}


def stops_at(history: History, place: int) -> list[Stop]:
    """The stops at every op that a value touches, in program order, then those at the boundary.

    For a result of `main`, what it returns is the value.
    """
    value = place if place >= 0 else history.record.returned[~place]
    stops: list[Stop] = []
    for position, op in enumerate(history.record.ops):
        if value in history.record.tensors[position] and op.name not in _NO_AXES_FLOW:
            stops += _at_op(history, value, position, op)
    stops += _at_computations(history, value)
    stops += _at_results(history, place)
    stops += _at_boundary(history, place)
    return list(dict.fromkeys(stops))


def _at_op(history: History, place: int, position: int, op: Op) -> Iterator[Stop]:
    record = history.record
    places = record.tensors[position]
    table = record.tables[position]
    at = _label(history, op)
    names = tensor_names(history, position)
    if op in record.buried or len(places) < 2:
        return
    if table is None:
        barrier = flow_of(op.signature) in BARRIERS
        detail = "axes do not flow through it" if barrier else "what its dimensions mean is not known"
        yield from _none_flow(history, places, place, names, at, Refusal("barrier" if barrier else "no rule", detail))
        return
    key = tuple(record.final[value] for value in places)
    mesh = common_mesh(table.seen(key))
    if mesh is None or mesh.is_maximal:
        yield from _none_flow(history, places, place, names, at, Refusal("mesh", "its tensors lie on different meshes"))
        return
    case = Case.of(table, key)
    yield from _between(history, case, places, place, names, at)
    yield from _reduced(case, places, place, names, at)


def _label(history: History, op: Op) -> tuple[str, str]:
    if op.name == EDGE:
        op = history.record.working.edges[op.results[0]].parent
    name = CONSTRAINT if op.name == "sdy.reshard" and op in history.record.constraints else op.signature.label
    return name, history.where(op)


def _none_flow(
    history: History, places: tuple[int, ...], place: int, names: list[str], at: tuple[str, str], why: Refusal
) -> Iterator[Stop]:
    """The stops at an op through which no axis flows at all; an axis that both sides have is none."""
    record = history.record
    used = {value: _used(record.sharding(record.final[value])) for value in places}
    own = names[places.index(place)]
    others = [value for value in used if value != place]
    for axis in used[place]:
        if any(not overlaps_any(axis, used[value]) for value in others):
            yield Stop(axis, *at, own, "its other tensors", why.reason, why.detail)
    for value in others:
        for axis in used[value]:
            if not overlaps_any(axis, used[place]):
                yield Stop(axis, *at, names[places.index(value)], own, why.reason, why.detail, True)


def _used(sharding: TensorSharding | None) -> Axes:
    return () if sharding is None else sharding.used_axes


def _between(
    history: History, case: Case, places: tuple[int, ...], place: int, names: list[str], at: tuple[str, str]
) -> Iterator[Stop]:
    """The stops between a value and the other tensors of one op, both ways."""
    for mine, value in enumerate(places):
        if value != place:
            continue
        for factor in case.tensors[mine].factors:
            for other, tensor in enumerate(case.tensors):
                if places[other] == place or factor not in tensor.factors:
                    continue
                for source, target in ((mine, other), (other, mine)):
                    why = _refusal(history, case, (source, target), factor, names, places[target])
                    if why is not None:
                        axis = _lacking(case, source, target, factor)
                        yield Stop(axis, *at, names[source], names[target], why.reason, why.detail, target == mine)


def _refusal(
    history: History, case: Case, ends: tuple[int, int], factor: int, names: list[str], target: int
) -> Refusal | None:
    """Why the target of an op has fewer axes for a factor than the source, and what in the program is behind it."""
    why = refusal(case, *ends, factor)
    if why is None:
        return None
    if why.reason in ("late", "elementwise"):
        return objection(case, names, ends[1], factor) or why
    if why.at is None:
        return why
    waited = _waited(history, target, why.at)
    if waited:
        return replace(why, reason="priority", detail=f"{why.detail}, which the program gives priority {waited}")
    return replace(why, detail=why.detail + _blame(history, target, why))


def _blame(history: History, place: int, why: Refusal) -> str:
    """Which annotation is behind what stands in the way on dimension `why.at` of a place."""
    assert why.at is not None, "only what stands in the way has a dimension"
    if why.reason == "closed":
        annotation = history.closer(place, why.at)
        return f" by {_source(annotation)}" if annotation is not None else ""
    chains = [chain for chain in chains_to(history, place, history.record.end_of_propagation) if chain.dim == why.at]
    sources = dict.fromkeys(_source(chain.annotation) for chain in chains)
    return f", from {' and '.join(sources)}" if sources else ""


def _source(annotation: Annotation) -> str:
    return f"{annotation.where} at {annotation.location}" if annotation.location else annotation.where


def _lacking(case: Case, source: int, target: int, factor: int) -> AxisRef:
    had, has = case.tensors[source].factors[factor].axes, case.tensors[target].factors[factor].axes
    return (fresh_axes(had, has) or had)[0]


def _reduced(case: Case, places: tuple[int, ...], place: int, names: list[str], at: tuple[str, str]) -> Iterator[Stop]:
    """Axes of operands along dimensions that the op reduces, which its results do not have."""
    for source, target in itertools.product(range(case.operands), range(case.operands, len(places))):
        if place not in (places[source], places[target]):
            continue
        lost = case.table.rule.reduction - set(case.tensors[target].factors)
        for factor, split in case.tensors[source].factors.items():
            for axis in split.axes if factor in lost else ():
                detail = "the op reduces the dimension that it splits"
                yield Stop(axis, *at, names[source], names[target], "reduced", detail, places[target] == place)


def _waited(history: History, place: int, dim: int | None) -> int:
    """The user priority that the program gives a dimension of a place, if it gives one."""
    changes = history.changes.get(place, [])
    first = changes[0].after if changes else None
    if dim is None or first is None or dim >= len(first.dims):
        return 0
    return first.dims[dim].priority or 0


def _at_computations(history: History, place: int) -> Iterator[Stop]:
    """Manual axes, which bodies of manual computations do not see."""
    working = history.record.working
    for edge in working.edges.values():
        source = working.holder_of(edge.sources[0])
        if edge.parent.name != MANUAL or not edge.inward or edge.boundary is None or place not in (source, edge.value):
            continue
        manual = edge.parent.signature.boundary.manual_axes
        source_name, target_name = tensor_names(history, history.positions[edge.op])
        for axis in edge.boundary.used_axes:
            if axis.name in manual:
                detail = "the body is written for one part along it"
                at = (MANUAL, history.where(edge.parent))
                yield Stop(axis, *at, source_name, target_name, "manual", detail, place == edge.value)


def _at_results(history: History, place: int) -> Iterator[Stop]:
    """Between a value that `main` returns and its result."""
    record = history.record
    for index, value in enumerate(record.returned):
        if place not in (value, ~index) or not record.working.types[value].dims:
            continue
        dims = record.working.types[value].dims
        numbers = record.numbers
        table = StepTable(
            numbers, identity_rule(dims), (Direction.BOTH,) * len(dims), False, record.when.phase.strategy
        )
        case = Case.of(table, (record.final[value], record.final_results[index]))
        names = tensor_names(history, ~index)
        yield from _between(history, case, (value, ~index), place, names, ("func.return", ""))


def _at_boundary(history: History, place: int) -> Iterator[Stop]:
    """What callers may not see: axes that do not divide, and parts of axes."""
    for change in history.changes.get(place, []):
        event = change.event
        if not isinstance(event, Rewritten) or event.why != "boundary" or event.before is None or event.after is None:
            continue
        for dim, (before, after) in enumerate(zip(event.before.dims, event.after.dims, strict=True)):
            for axis in subtract_axes(before.axes, after.axes):
                detail = _boundary_detail(history, place, event.before, axis, dim)
                yield Stop(axis, "main", "", f"dimension {dim}", "its caller", "boundary", detail)


def _boundary_detail(history: History, place: int, sharding: TensorSharding, axis: AxisRef, dim: int) -> str:
    record = history.record
    size = record.working.types[record.returned[~place] if place < 0 else place].dims[dim]
    split = math.prod(other.size for other in sharding.dims[dim].axes)
    if size % split:
        return f"{split} shards do not divide its {size} elements"
    return "a caller cannot name a part of an axis"
