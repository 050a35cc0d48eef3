"""What differs between two saved plans: what lies otherwise, what is in one alone, how they were made, and what each
came to.

>>> from shardwright.mesh import Mesh
>>> from shardwright.plans.saved import PlannedTensor
>>> from shardwright.sharding import TensorSharding
>>> mesh = Mesh(x=2)
>>> split, whole = (TensorSharding.of(mesh, dims) for dims in ([["x"], []], [[], []]))
>>> one, other = (SavedPlan(mesh, {"w": PlannedTensor(lies, lies)}) for lies in (split, whole))
>>> compare_plans(one, other).arguments
(Change(name='w', before='x,.', after='.,.', bytes_before=None, bytes_after=None),)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shardwright.plans.layouts import layout_text, type_text
from shardwright.plans.saved import PlannedTensor, SavedPlan
from shardwright.sharding import TensorSharding

__all__ = ["Change", "Difference", "compare_plans"]


@dataclass(frozen=True, slots=True)
class Change:
    """What is said of something in each of two plans; `None` where one says nothing of it.

    Attributes:
        name: What it is said of.
        before: What the first plan says.
        after: What the second one says.
        bytes_before: What each device holds of it by the first plan, where its type is known.
        bytes_after: The same by the second one.
    """

    name: str
    before: Any
    after: Any
    bytes_before: int | None = None
    bytes_after: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two plans.

    Attributes:
        mesh: Axes, and the order of devices.
        arguments: Those that lie otherwise, or are in one plan alone.
        results: The same of results.
        given: What lies as before and was annotated otherwise.
        types: What is of another type.
        modules: What modules take and give that lies otherwise, or is in one plan alone.
        constraints: What is said of values inside, by its place.
        how: How they were propagated and partitioned, and for which hardware.
        outcome: What they came to.
        compared: How many arguments are in both plans.
    """

    mesh: tuple[Change, ...]
    arguments: tuple[Change, ...]
    results: tuple[Change, ...]
    modules: tuple[Change, ...]
    given: tuple[Change, ...]
    types: tuple[Change, ...]
    constraints: tuple[Change, ...]
    how: tuple[Change, ...]
    outcome: tuple[Change, ...]
    compared: int

    @property
    def is_empty(self) -> bool:
        """Whether the plans say the same."""
        return not any(value for name, value in self.summary().items() if name != "compared")

    def summary(self) -> dict[str, Any]:
        """As JSON values: lists of changes by name."""
        return asdict(self)


def compare_plans(before: SavedPlan, after: SavedPlan) -> Difference:
    """What differs between two plans; layouts are compared by the names of their axes, whatever these are on."""
    arguments = before.arguments, after.arguments
    results = before.results, after.results
    modules = _of_modules(before), _of_modules(after)
    every = (arguments, results, modules)
    return Difference(
        _changes(_mesh(before), _mesh(after)),
        _layouts(*arguments),
        _layouts(*results),
        _layouts(*modules),
        tuple(change for pair in every for change in _given(*pair)),
        tuple(change for pair in every for change in _types(*pair)),
        _changes(_constraints(before), _constraints(after)),
        _changes(_how(before), _how(after)),
        _changes(_outcome(before), _outcome(after)),
        len(before.arguments.keys() & after.arguments.keys()),
    )


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """What differs between two tables, in the order of the first, then of the second."""
    names = dict.fromkeys([*before, *after])
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(Change(name, one, other) for name, one, other in pairs if one != other)


def _mesh(plan: SavedPlan) -> dict[str, Any]:
    return {
        "axes": ",".join(f"{name}={size}" for name, size in plan.mesh.axes),
        "device_ids": None if plan.mesh.device_ids is None else list(plan.mesh.device_ids),
    }


def _of_modules(plan: SavedPlan) -> dict[str, PlannedTensor]:
    """What modules take and give, by their calls and what it is called there."""
    return {f"{call}: {what}": one for call, module in plan.modules.items() for what, one in module.tensors.items()}


def _layouts(before: Mapping[str, PlannedTensor], after: Mapping[str, PlannedTensor]) -> tuple[Change, ...]:
    """What lies otherwise, with what each device holds of it."""
    found: list[Change] = []
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name), after.get(name)
        texts = [None if each is None else _text(each.sharding.closed(), each) for each in (one, other)]
        if texts[0] != texts[1]:
            found.append(Change(name, texts[0], texts[1], _held(one), _held(other)))
    return tuple(found)


def _text(sharding: TensorSharding, of: PlannedTensor) -> str:
    return layout_text(sharding, None if of.type is None else of.type.dims)


def _held(one: PlannedTensor | None) -> int | None:
    """What each device holds of a tensor, in bytes."""
    if one is None or one.type is None or not one.type.is_tensor:
        return None
    local = one.sharding.local_shape(one.type.dims)
    return one.type.bytes // max(1, one.type.elements) * math.prod(local)


def _given(before: Mapping[str, PlannedTensor], after: Mapping[str, PlannedTensor]) -> tuple[Change, ...]:
    """What lies alike and was annotated otherwise."""
    both = [name for name in before if name in after]
    alike = [name for name in both if _closed(before[name]) == _closed(after[name])]
    texts = [{name: _said(plan[name]) for name in alike} for plan in (before, after)]
    return _changes(*texts)


def _closed(one: PlannedTensor) -> str:
    return _text(one.sharding.closed(), one)


def _said(one: PlannedTensor) -> str | None:
    return None if one.given is None else _text(one.given, one)


def _types(before: Mapping[str, PlannedTensor], after: Mapping[str, PlannedTensor]) -> tuple[Change, ...]:
    """What is of another type, where both are known."""
    pairs = ((name, before[name].type, after[name].type) for name in before if name in after)
    found = ((name, type_text(one), type_text(other)) for name, one, other in pairs if one and other and one != other)
    return tuple(Change(*each) for each in found)


def _constraints(plan: SavedPlan) -> dict[str, Any]:
    """What is said at each place, all of it where that is several times."""
    places: dict[str, list[str]] = {}
    for one in plan.constraints:
        shape = None if one.type is None else one.type.dims
        places.setdefault(one.at, []).append(layout_text(one.sharding, shape))
    return {at: "; ".join(texts) for at, texts in places.items()}


def _how(plan: SavedPlan) -> dict[str, Any]:
    how: dict[str, Any] = {"strategy": plan.strategy, "conservative": plan.conservative}
    return how if plan.partitioning is None else {**how, **asdict(plan.partitioning)}


def _outcome(plan: SavedPlan) -> dict[str, Any]:
    return {} if plan.outcome is None else asdict(plan.outcome)
