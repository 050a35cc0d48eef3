"""How what the modules of a model take and give lies, call by call."""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.plans.saved import PlannedModule, PlannedTensor

__all__ = ["by_calls"]


def by_calls(tensors: Iterable[tuple[ModuleTensor, PlannedTensor]]) -> dict[str, PlannedModule]:
    """Tensors and how they lie, by the calls that take and give them."""
    found: dict[str, tuple[dict[str, PlannedTensor], dict[str, PlannedTensor]]] = {}
    for part, planned in tensors:
        inputs, outputs = found.setdefault(part.call, ({}, {}))
        (inputs if part.is_input else outputs)[part.name] = planned
    return {call: PlannedModule(*sides) for call, sides in found.items()}
