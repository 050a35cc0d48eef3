"""Following an axis back through the mesh RFC's completion, from where it is to what the program says.

The loops of an op may be parts of one dimension, and have parts of an axis: each part is followed on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardwright.axes import AxisRef
from shardwright.propagation.explain.chain import Annotation, Chain, Link
from shardwright.propagation.explain.history import History
from shardwright.propagation.rfc.derivation import Completion, Decision, OpStatement, Origin, Spoken, Statement
from shardwright.propagation.working import CONSTRAINT
from shardwright.sharding import TensorSharding

__all__ = ["annotation_of", "dropped_at", "lineage_of"]

_Trail = tuple[Link, Any] | None
"""The links from here on to the value asked about, the next one first."""


def lineage_of(history: History, statement: Statement) -> list[Chain]:
    """How every axis of a statement came there, dimension by dimension."""
    chains: list[Chain] = []
    for dim, dim_sharding in enumerate(statement.sharding.dims):
        for axis in dim_sharding.axes:
            chains += _follow(history, statement, axis, dim)
    return chains


def annotation_of(history: History, statement: Statement) -> Annotation | None:
    """What the program says that a statement is, if it is."""
    return _annotation(history, statement, statement.basis) if isinstance(statement.basis, Spoken) else None


def dropped_at(completion: Completion, value: int) -> Iterator[str]:
    """The hints for a value, or for uses of it, that could not be followed, in sentences."""
    same = completion.same
    place = same.get(value, value)
    for one in completion.dropped:
        if same.get(one.hint.value, one.hint.value) == place:
            yield str(one)


def _follow(history: History, start: Statement, axis: AxisRef, dim: int) -> Iterator[Chain]:
    stack: list[tuple[Statement, AxisRef, int, _Trail]] = [(start, axis, dim, None)]
    while stack:
        statement, axis, at, trail = stack.pop()
        if isinstance(statement.basis, Spoken):
            yield _chain(dim, axis, _annotation(history, statement, statement.basis), trail)
            continue
        onward: list[tuple[Statement, AxisRef, int, _Trail]] = []
        for factor, part in _parts(statement.basis, axis, at):
            owner = statement.basis.decision.owners.get(factor)
            link = _link(history, statement.basis, part, at, owner)
            if owner is None:
                yield _chain(dim, part, _preset(history, statement.basis.decision, statement), (link, trail))
            else:
                onward.append((owner.statement, part, _dim(owner.sharding, part), (link, trail)))
        stack += reversed(onward)


def _parts(origin: Origin, axis: AxisRef, dim: int) -> Iterator[tuple[int, AxisRef]]:
    """The loops that brought parts of an axis to a dimension, and the parts."""
    for factor in origin.mapping[dim]:
        for other in origin.decision.option.get(factor, ()):
            if axis.overlaps(other):
                low, high = max(axis.pre, other.pre), min(axis.end, other.end)
                yield factor, AxisRef(axis.name, low, high // low)


def _dim(sharding: TensorSharding, axis: AxisRef) -> int:
    """The dimension that an axis splits; of a partial sum along it, which only annotations ask for, it is none."""
    dims = enumerate(sharding.dims)
    return next((dim for dim, dim_sharding in dims if any(axis.overlaps(other) for other in dim_sharding.axes)), -1)


def _link(history: History, origin: Origin, axis: AxisRef, dim: int, owner: OpStatement | None) -> Link:
    decision = origin.decision
    label = decision.op.signature.label
    if owner is None:
        source = decision.by
    else:
        source = owner.name if owner.label == label else owner.where
    location = "" if decision.kind == "return" else history.where(decision.op)
    return Link(decision.kind, label, location, source, origin.target, axis, dim)


def _chain(dim: int, axis: AxisRef, annotation: Annotation, trail: _Trail) -> Chain:
    links: list[Link] = []
    while trail is not None:
        links.append(trail[0])
        trail = trail[1]
    return Chain(axis, dim, annotation, tuple(links))


def _annotation(history: History, statement: Statement, spoken: Spoken) -> Annotation:
    if spoken.is_constraint:
        return Annotation(CONSTRAINT, statement.line, spoken.sharding)
    place = spoken.place if isinstance(spoken.place, int) else ~spoken.place[1]
    return history.annotation(place, spoken.sharding)


def _preset(history: History, decision: Decision, statement: Statement) -> Annotation:
    op = decision.op
    return Annotation(f"{decision.by} of {op.signature.label}", history.where(op), statement.sharding)
