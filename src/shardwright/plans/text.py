"""Plans as TOML: one line an argument, so that what changes from one plan to the next is what a diff of texts shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwright.plans.layouts import layout_text, type_text
from shardwright.plans.saved import Constraint, PlannedModule, PlannedTensor, SavedPlan
from shardwright.toml import toml_text

__all__ = ["VERSION", "VERSION_KEY", "plan_text"]

VERSION = 1
"""The version of the schema; what an older one says is read for as long as anybody has such files."""

VERSION_KEY = "shardwright_plan"
"""The key of the version: the first of the file, by which it is known."""


def plan_text(plan: SavedPlan) -> str:
    """A plan as the text that `read_plan` takes back.

    Raises:
        ShardingError: a sharding that no notation can say.
    """
    content: dict[str, Any] = {VERSION_KEY: VERSION}
    if plan.program:
        content["program"] = plan.program
    content["mesh"] = _mesh(plan)
    how = {"strategy": plan.strategy, "conservative": plan.conservative}
    if said := {name: value for name, value in how.items() if value is not None}:
        content["propagation"] = said
    if plan.partitioning is not None:
        hardware = plan.partitioning.hardware
        names = ("arguments", "effort", "optimize")
        content["partition"] = {name: getattr(plan.partitioning, name) for name in names}
        content["partition"] |= {"hardware": hardware} if hardware else {}
    if plan.outcome is not None:
        content["outcome"] = {name: getattr(plan.outcome, name) for name in plan.outcome.__slots__}
    content["arguments"] = _tensors(plan.arguments)
    content["results"] = _tensors(plan.results)
    content["modules"] = {call: _module(one) for call, one in plan.modules.items()}
    content["constraints"] = [_constraint(one) for one in plan.constraints]
    return toml_text({name: value for name, value in content.items() if value or name == "arguments"})


def _mesh(plan: SavedPlan) -> dict[str, Any]:
    mesh: dict[str, Any] = {"axes": [list(axis) for axis in plan.mesh.axes]}
    if plan.mesh.device_ids is not None:
        mesh["device_ids"] = list(plan.mesh.device_ids)
    if plan.mesh.name != "mesh":
        mesh["name"] = plan.mesh.name
    return mesh


def _module(one: PlannedModule) -> dict[str, Any]:
    sides = {"inputs": _tensors(one.inputs), "outputs": _tensors(one.outputs)}
    return {side: tensors for side, tensors in sides.items() if tensors}


def _tensors(tensors: Mapping[str, PlannedTensor]) -> dict[str, dict[str, Any]]:
    return {name: _tensor(one) for name, one in tensors.items()}


def _tensor(one: PlannedTensor) -> dict[str, Any]:
    """Type and layout; beside them how it was annotated, if that is not the layout itself."""
    shape = None if one.type is None else one.type.dims
    said: dict[str, Any] = {} if one.type is None else {"type": type_text(one.type)}
    said["sharding"] = layout_text(one.sharding, shape)
    if one.given is None:
        said["completed"] = True
    elif one.given != one.sharding:
        said["given"] = layout_text(one.given, shape)
    return said


def _constraint(one: Constraint) -> dict[str, Any]:
    said: dict[str, Any] = {"at": one.at}
    if one.type is not None:
        said["type"] = type_text(one.type)
    return {**said, "sharding": layout_text(one.sharding, None if one.type is None else one.type.dims)}
