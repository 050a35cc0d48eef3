"""Decisions on ops that read and make values of which all is alike: decided once, they name other values then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from shardwright.ir.graph import Op
from shardwright.partition.decisions import AtUses, Computed, Decision, Fresh, PassedOn, Reshard, Version
from shardwright.partition.targets import Targets
from shardwright.partition.values import State, Values

__all__ = ["Alike", "alike", "is_of_any", "needs_more", "on_values"]


class Alike(NamedTuple):
    """What becomes of all ops of one signature that read values in the same states, where the same is asked of all.

    Attributes:
        decision: Of the first of them.
        values: The values that this reads and makes, if it names any.
        states: The states of its results.
        read: By place, the states of operands of which there are more versions then.
    """

    decision: Computed
    values: tuple[int, ...]
    states: list[State]
    read: tuple[tuple[int, State], ...]

    def on(self, others: tuple[int, ...], values: Values) -> Computed:
        """The decision on another of these ops, which reads and makes other values."""
        for place, state in self.read:
            values.become(others[place], state)
        return _computed(self.decision, dict(zip(self.values, others, strict=True)))


def alike(op: Op, read: Sequence[int], decision: Computed, before: Sequence[State], values: Values) -> Alike:
    """What becomes of ops like one that was decided on, before which what it reads was in these states."""
    state_of = values.states.__getitem__
    more = [(i, state) for i, state in enumerate(map(state_of, read)) if state is not before[i]]
    named = (*read, *op.results) if decision.before or decision.after else ()
    return Alike(decision, named, list(map(state_of, op.results)), tuple(more))


def is_of_any(op: Op, read: Sequence[int], decision: Computed, targets: Targets, values: Values) -> bool:
    """Whether a decision would be the same of any op on the same, but for the values that it names: those that the op
    reads, each once, and makes.
    """
    if op.regions or not (targets.is_even or op.signature.name not in ("stablehlo.pad", "stablehlo.slice")):
        return False
    if not decision.before:
        return True
    operands = set(read)
    if values.made_of or len(operands) < len(read):
        return False
    of_others = [version.operands for version in decision.before if isinstance(version, Fresh)]
    return not any(of_others) and all(version.value in operands for version in decision.before)


def needs_more(decision: Computed) -> bool:
    """Whether more matters to a decision than the states of what is read: what is asked of that."""
    is_told_of_sums = decision.notes and any(layout is not None and layout.partial for layout in decision.operands)
    return bool(decision.before or decision.after or is_told_of_sums)


def on_values(decision: Decision, names: Mapping[int, int]) -> Decision:
    """A decision, on other values.

    Arguments:
        decision: What becomes of an op.
        names: The values that it may name, with those that it is to name.
    """
    if isinstance(decision, Computed):
        return _computed(decision, names)
    return decision if isinstance(decision, AtUses) else PassedOn(_versions(decision.before, names))


def _computed(decision: Computed, names: Mapping[int, int]) -> Computed:
    if not decision.before and not decision.after:
        return decision
    after = tuple([replace(one, value=names[one.value]) for one in decision.after])
    return Computed(_versions(decision.before, names), decision.operands, decision.results, after, decision.notes)


def _versions(versions: tuple[Version, ...], names: Mapping[int, int]) -> tuple[Version, ...]:
    return tuple([_version(one, names) for one in versions])


def _version(version: Version, names: Mapping[int, int]) -> Version:
    value = names[version.value]
    if isinstance(version, Fresh):
        return replace(version, value=value, before=_versions(version.before, names))
    return Reshard(value, version.source, version.steps)
