"""Decisions on ops that read and make values of which all is alike: decided once, they name other values then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shardwright.partition.decisions import AtUses, Computed, Decision, Fresh, PassedOn, Version

__all__ = ["on_values"]


def on_values(decision: Decision, names: Mapping[int, int]) -> Decision:
    """A decision, on other values.

    Arguments:
        decision: What becomes of an op that no note tells of.
        names: The values that it may name, with those that it is to name.
    """
    if isinstance(decision, AtUses) or not (decision.before or (isinstance(decision, Computed) and decision.after)):
        return decision
    before = _versions(decision.before, names)
    if isinstance(decision, PassedOn):
        return PassedOn(before)
    after = tuple([replace(one, value=names[one.value]) for one in decision.after])
    return replace(decision, before=before, after=after)


def _versions(versions: tuple[Version, ...], names: Mapping[int, int]) -> tuple[Version, ...]:
    return tuple([_version(one, names) for one in versions])


def _version(version: Version, names: Mapping[int, int]) -> Version:
    value = names[version.value]
    if isinstance(version, Fresh):
        return replace(version, value=value, before=_versions(version.before, names))
    return replace(version, value=value)
