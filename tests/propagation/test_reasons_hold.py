"""On random programs, explanations hold: chains connect, and an axis comes once what stopped it is out of the way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardwright.axes import AxisRef
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read
from shardwright.propagation import Chain, Link, Recording, propagate
from shardwright.propagation.engine.compatible import Direction, is_strict_prefix
from shardwright.propagation.engine.projection import project
from shardwright.propagation.engine.step import common_mesh, outcome
from shardwright.propagation.engine.worklist import StepTable
from shardwright.propagation.explain.explain import explain_values
from shardwright.propagation.explain.history import History
from shardwright.propagation.explain.refusal import Case, Refusal, refusal
from shardwright.propagation.explain.trails import tensor_names
from shardwright.propagation.explain.withheld import objection
from shardwright.propagation.recording import RecordedStep
from shardwright.sharding import TensorSharding
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "40"))
_METHODS: tuple[dict[str, str], ...] = ({}, {"strategy": "basic"}, {"strategy": "aggressive"}, {"strategy": "cost"})


def _recorded(text: str, method: dict[str, str]) -> tuple[Recording, Graph]:
    recording = Recording()
    graph = read(load_module(text))
    return recording, propagate(graph, record=recording, strategy=method.get("strategy", "user-priority"))


def _programs() -> Iterator[tuple[str, Recording, Graph]]:
    for seed in range(_COUNT):
        for write in (random_program, wide_program):
            for method in _METHODS:
                yield f"{write.__name__}({seed}) {method}", *_recorded(write(seed), method)


# Chains


class _Walk:
    """Follows chains through the raw record, apart from what the explanation made of it."""

    def __init__(self, record: Recording, graph: Graph) -> None:
        self.history = History(record, graph)
        self.record = record
        self.steps = {event.number: event for event in record.events if isinstance(event, RecordedStep)}

    def end(self, chain: Chain) -> int | None:
        """The place where a chain ends; every link begins where the one before ended, and brings its axis."""
        place = self._begin(chain)
        for link in chain.links:
            if link.kind == "constraint":
                place = None
            elif link.kind == "group":
                assert place is None or self._is_grouped(place)
                place = None
            else:
                place = self._step(link, place)
        return place

    def _begin(self, chain: Chain) -> int | None:
        main, (kind, _, name) = self.history.graph.main, chain.annotation.where.partition(" ")
        if kind == "argument":
            return self.record.working.block.arguments[main.argument_names.index(name)]
        return ~main.result_names.index(name) if kind == "result" else None

    def _is_grouped(self, place: int) -> bool:
        held = self.record.working.holder_of
        return any(place in map(held, group) for group in self.record.working.groups)

    def _step(self, link: Link, place: int | None) -> int:
        step = self.steps[link.step]
        names = tensor_names(self.history, step.op)
        source, target = names.index(link.source), names.index(link.target)
        assert place is None or step.places[source] == place, "the link begins elsewhere"
        changes = dict(step.changes)
        before, after = (self.record.sharding(number) for number in (step.key[target], changes[target]))
        assert _has(after, link.dim, link.axis)
        assert not _has(before, link.dim, link.axis)
        had = step.table.seen(step.key)[source]
        mappings = step.table.rule.operands + step.table.rule.results
        shared = {
            dim
            for dim, factors in enumerate(mappings[source])
            if set(factors) & set(mappings[target][link.dim]) and _has(had, dim, link.axis)
        }
        assert shared, "the op does not relate the dimensions"
        return step.places[target]


def _has(sharding: TensorSharding | None, dim: int, axis: AxisRef) -> bool:
    return sharding is not None and any(other.contains(axis) for other in sharding.dims[dim].axes)


def test_the_links_of_every_chain_connect_an_annotation_with_the_value() -> None:
    followed = 0
    for name, record, graph in _programs():
        walk = _Walk(record, graph)
        values = [value for op in graph.walk() for value in op.results]
        asked = [*graph.main.block.arguments, *values, *(~index for index in range(len(graph.main.result_names)))]
        for value, explanation in zip(asked, explain_values(walk.history, asked), strict=True):
            for chain in explanation.chains:
                assert _has_somewhere(chain.annotation.sharding, chain.axis), name
                place = walk.end(chain)
                assert place in (None, value, record.working.holder_of(value) if value >= 0 else value), name
                followed += len(chain.links)
    assert followed > 10 * _COUNT


def _has_somewhere(sharding: TensorSharding | None, axis: AxisRef) -> bool:
    return sharding is not None and any(other.overlaps(axis) for other in sharding.used_axes)


# Stops


@dataclass(frozen=True)
class _Refused:
    """An axis that one tensor of an op did not take from another, for a factor."""

    case: Case
    source: int
    target: int
    factor: int

    @property
    def why(self) -> Refusal | None:
        why = refusal(self.case, self.source, self.target, self.factor)
        if why is None or why.reason not in ("late", "elementwise"):
            return why
        names = [str(tensor) for tensor in range(len(self.case.tensors))]
        return objection(self.case, names, self.target, self.factor) or why

    @property
    def gained(self) -> set[int]:
        """The factors for which a step now splits the target further."""
        table = self.case.table
        way = (table.directions, table.elementwise, table.strategy, table.conservative)
        result = outcome(table.rule, self.case.shardings, *way)
        assert result is not None
        before, after = result.before[self.target].factors, result.after[self.target].factors
        return {factor for factor, split in before.items() if is_strict_prefix(split.axes, after[factor].axes)}

    def without(self, why: Refusal) -> _Refused | None:
        """The same where the named cause is out of the way; `None` where that takes another program."""
        table, rule = self.case.table, self.case.table.rule
        both = (Direction.BOTH,) * len(rule.sizes)
        if why.reason == "closed":
            return self._open(self.target)
        if why.reason in ("replicated", "unreduced"):
            return self._resharded(self.target, replace(self._sharding(self.target), replicated=(), partial=()))
        if why.reason in ("barrier", "blocked"):
            free = replace(rule, blocked=frozenset())
            return self._at(StepTable(table.numbers, free, both, table.elementwise, table.strategy))
        if why.reason == "elementwise":
            return self._at(StepTable(table.numbers, rule, table.directions, False, table.strategy))
        if why.reason == "overflow":
            return self._cleared(self.target, self._dim(self.target))
        if why.reason == "basic":
            return self._forced(int(why.detail.split(" ")[0]))
        if why.reason != "conflict":
            return None
        if why.at is None:
            kind, number, *_ = why.detail.split(" ")
            tensor = int(number) + (self.case.operands if kind == "result" else 0)
            return self._cleared(tensor, self._dim(tensor))
        return self._without_rivals(why.at)

    def _dim(self, tensor: int) -> int:
        mapping = (self.case.table.rule.operands + self.case.table.rule.results)[tensor]
        return next(dim for dim, factors in enumerate(mapping) if self.factor in factors)

    def _sharding(self, tensor: int) -> TensorSharding:
        sharding = self.case.shardings[tensor]
        assert sharding is not None, "only what is said stands in the way"
        return sharding

    def _open(self, tensor: int) -> _Refused:
        sharding = self._sharding(tensor)
        dims = tuple(replace(dim, open=True) for dim in sharding.dims)
        return self._resharded(tensor, replace(sharding, dims=dims))

    def _cleared(self, tensor: int, dim: int) -> _Refused:
        sharding = self._sharding(tensor)
        dims = (*sharding.dims[:dim], replace(sharding.dims[dim], axes=()), *sharding.dims[dim + 1 :])
        return self._resharded(tensor, replace(sharding, dims=dims))

    def _without_rivals(self, dim: int) -> _Refused:
        """Without what splits a dimension of the target, on all tensors: they would give it back."""
        mappings = self.case.table.rule.operands + self.case.table.rule.results
        rivals = set(mappings[self.target][dim])
        changed = self
        for tensor, mapping in enumerate(mappings):
            for other, factors in enumerate(mapping):
                is_target = self.factor in factors and tensor != self.target
                if rivals & set(factors) and not is_target and self.case.shardings[tensor] is not None:
                    changed = changed._cleared(tensor, other)
        return changed

    def _forced(self, tensor: int) -> _Refused:
        """Where a tensor that objects says nothing any more."""
        return self._resharded(tensor, None)

    def _resharded(self, tensor: int, sharding: TensorSharding | None) -> _Refused:
        shardings = (*self.case.shardings[:tensor], sharding, *self.case.shardings[tensor + 1 :])
        return self._at(self.case.table, shardings)

    def _at(self, table: StepTable, shardings: tuple[TensorSharding | None, ...] | None = None) -> _Refused:
        now = self.case.shardings if shardings is None else shardings
        mappings = table.rule.operands + table.rule.results
        tensors = tuple(project(m, one, table.rule.sizes) for m, one in zip(mappings, now, strict=True))
        return replace(self, case=Case(table, now, tensors))


def _refused(record: Recording) -> Iterator[_Refused]:
    for position, table in enumerate(record.tables):
        if table is None:
            continue
        places = record.tensors[position]
        key = tuple(record.final[place] for place in places)
        mesh = common_mesh(table.seen(key))
        if mesh is None or mesh.is_maximal:
            continue
        case = Case.of(table, key)
        for source, tensor in enumerate(case.tensors):
            for target, other in enumerate(case.tensors):
                for factor in tensor.factors if places[source] != places[target] else ():
                    if factor in other.factors:
                        yield _Refused(case, source, target, factor)


def test_an_axis_comes_once_every_cause_that_is_named_is_out_of_the_way() -> None:
    outcomes: dict[str, int] = {}
    for name, record, _ in _programs():
        for refused in _refused(record):
            if refused.why is not None:
                became = _freed(refused)
                assert became, f"{name}: {refused.why} at {refused}"
                outcomes[became] = outcomes.get(became, 0) + 1
    assert outcomes["comes"] > 0.9 * sum(outcomes.values())


def _freed(refused: _Refused) -> str:
    """What becomes of an axis when causes are taken away one after the other.

    It `comes`, or its size is in the way; or another loop of the op now is the first to take it.
    """
    for _ in range(10):
        if refused.factor in refused.gained or refused.why is None:
            return "comes"
        why = refused.why
        if why.reason in ("divisibility", "strided"):
            return why.reason
        if why.reason == "late":
            return "another loop" if refused.gained else ""
        freed = refused.without(why)
        if freed is None:
            return ""
        refused = freed
    return ""
