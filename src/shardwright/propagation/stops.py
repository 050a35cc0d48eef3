"""Where the axes of a value went no further, and which axes of its neighbours did not come to it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardwright.ir.graph import Op
from shardwright.mesh import AxisRef, subtract_axes
from shardwright.propagation.compatible import Direction
from shardwright.propagation.engine import StepTable
from shardwright.propagation.explanation import Stop
from shardwright.propagation.history import History
from shardwright.propagation.priorities import BARRIERS, flow_of
from shardwright.propagation.reasons import Rewritten
from shardwright.propagation.refusal import Case, Refusal, refusal
from shardwright.propagation.trace import tensor_names
from shardwright.propagation.working import CONSTRAINT, DATA_FLOW_OPS, EDGE, GROUP
from shardwright.rules.rule import identity_rule
from shardwright.sharding import TensorSharding

__all__ = ["stops_at"]

_NO_AXES_FLOW = DATA_FLOW_OPS | {GROUP, "func.return", "stablehlo.return", "sdy.return"}


def stops_at(history: History, place: int) -> list[Stop]:
    """The stops at every op that a value touches, in program order, then those at the boundary."""
    found: list[Stop] = []
    for position, op in enumerate(history.record.ops):
        if place in history.record.tensors[position] and op.name not in _NO_AXES_FLOW:
            found += _at_op(history, place, position, op)
    found += _at_results(history, place)
    found += _at_boundary(history, place)
    return list(dict.fromkeys(found))


def _at_op(history: History, place: int, position: int, op: Op) -> Iterator[Stop]:
    record = history.record
    places = record.tensors[position]
    table = record.tables[position]
    label, where = _label(history, op)
    if table is None:
        sharding = record.sharding(record.final[place])
        if len(places) < 2 or sharding is None or op in record.buried:
            return
        reason = "barrier" if flow_of(op.signature) in BARRIERS else "no rule"
        detail = "axes do not flow through it" if reason == "barrier" else "what its dimensions mean is not known"
        name = tensor_names(history, position)[places.index(place)]
        for axis in sharding.used_axes:
            yield Stop(axis, label, where, name, "its other tensors", reason, detail)
        return
    case = Case.of(table, [record.final[value] for value in places])
    yield from _between(history, case, places, place, tensor_names(history, position), (label, where))


def _label(history: History, op: Op) -> tuple[str, str]:
    if op.name == EDGE:
        op = history.record.working.edges[op.results[0]].parent
    name = CONSTRAINT if op.name == "sdy.reshard" and op in history.record.constraints else op.signature.label
    return name, history.where(op)


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
                    why = refusal(case, source, target, factor)
                    if why is not None:
                        yield _stop(history, case, factor, (source, target), places, names, at, why)


def _stop(
    history: History,
    case: Case,
    factor: int,
    ends: tuple[int, int],
    places: tuple[int, ...],
    names: list[str],
    at: tuple[str, str],
    why: Refusal,
) -> Stop:
    source, target = ends
    had, has = case.tensors[source].factors[factor].axes, case.tensors[target].factors[factor].axes
    axis = (subtract_axes(had, has) or had)[0]
    reason, detail = why.reason, why.detail
    waited = _waited(history, places[target], why.at)
    if waited and reason in ("conflict", "closed"):
        reason, detail = "priority", f"{detail}, which the program gives priority {waited}"
    return Stop(axis, *at, names[source], names[target], reason, detail)


def _waited(history: History, place: int, dim: int | None) -> int:
    """The user priority that the program gives a dimension of a place, if it gives one."""
    changes = history.changes.get(place, [])
    first = changes[0].after if changes else None
    if dim is None or first is None or dim >= len(first.dims):
        return 0
    return first.dims[dim].priority or 0


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
