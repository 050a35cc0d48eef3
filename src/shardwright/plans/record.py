"""A plan as it is written down, of a program with a sharding for every tensor."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.frontends.constrained_parts import stated_parts
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.plans.modules import by_calls
from shardwright.plans.saved import Constraint, PlannedModule, PlannedTensor, SavedPlan
from shardwright.sharding import TensorSharding

__all__ = ["record"]

_CONSTRAINT = "sdy.sharding_constraint"


def record(
    annotated: Graph,
    arguments: Mapping[str, TensorSharding],
    results: Mapping[str, TensorSharding],
    strategy: str,
    conservative: bool,
    program: str = "",
    parts: Sequence[tuple[ModuleTensor, TensorSharding]] = (),
) -> SavedPlan:
    """The plan of a program.

    Arguments:
        annotated: The program with the shardings that users gave, and no others.
        arguments: How each argument lies, by name.
        results: How each result lies, by name.
        strategy: How it was propagated.
        conservative: Whether only whole axes flowed.
        program: What it is called.
        parts: How the tensors at the boundaries of modules lie.

    Raises:
        ShardingError: an argument or a result lies on another mesh than the first.
    """
    mesh, main = annotated.mesh, annotated.main
    stated = stated_parts(annotated, [part for part, _ in parts])
    given = [annotated.shardings[value] for value in main.block.arguments]
    return SavedPlan(
        mesh,
        _tensors("argument", annotated.arguments, arguments, given, mesh),
        _tensors("result", annotated.results, results, main.result_shardings, mesh),
        _constraints(annotated, mesh, stated.values()),
        program,
        strategy,
        conservative,
        modules=_modules(annotated, parts, stated, mesh),
    )


def _modules(
    annotated: Graph, parts: Sequence[tuple[ModuleTensor, TensorSharding]], stated: Mapping[str, int], mesh: Mesh
) -> dict[str, PlannedModule]:
    """How the tensors at the boundaries of modules lie, where that is on the mesh of the plan, by calls of these."""
    found: list[tuple[ModuleTensor, PlannedTensor]] = []
    for part, sharding in parts:
        lies = _on(sharding, mesh)
        if lies is not None:
            said = annotated.shardings[stated[str(part)]] if str(part) in stated else None
            given = None if said is None else _on(said, mesh)
            found.append((part, PlannedTensor(lies, given, annotated.types[part.value])))
    return by_calls(found)


def _tensors(
    what: str,
    types: Mapping[str, TensorType],
    layouts: Mapping[str, TensorSharding],
    given: Sequence[TensorSharding | None],
    mesh: Mesh,
) -> dict[str, PlannedTensor]:
    tensors: dict[str, PlannedTensor] = {}
    for (name, type), said in zip(types.items(), given, strict=True):
        lies = _on(layouts[name], mesh)
        if lies is None:
            raise ShardingError(
                f"{what} {name!r} lies on {layouts[name].mesh!r}",
                cause=f"a plan is written for one mesh, here {mesh!r}",
                remedy="give the program one mesh",
            )
        own = None if said is None else _on(said, mesh)  # that it is on one device alone the program says itself
        tensors[name] = PlannedTensor(lies, own, type)
    return tensors


def _on(sharding: TensorSharding, mesh: Mesh) -> TensorSharding | None:
    """A sharding on a mesh of the same axes and devices, which may have another name; `None` where it is on others."""
    same = (sharding.mesh.axes, sharding.mesh.device_ids) == (mesh.axes, mesh.device_ids)
    return replace(sharding, mesh=mesh) if same else None


def _constraints(annotated: Graph, mesh: Mesh, besides: Collection[int]) -> tuple[Constraint, ...]:
    """What the program says of values inside of it, but for those `besides`, where that is on the mesh of the plan."""
    made: list[Constraint] = []
    for op in annotated.walk():
        is_own = op.name == _CONSTRAINT and op.results[0] not in besides
        said = annotated.shardings[op.results[0]] if is_own else None
        lies = None if said is None else _on(said, mesh)
        if lies is not None:
            made.append(Constraint(str(annotated.locations[op.location]), lies, annotated.types[op.results[0]]))
    return tuple(made)
