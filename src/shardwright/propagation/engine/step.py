"""One propagation step through one op, as a pure function of its rule and shardings. Memoized.

A program has many ops but few different steps: a GPT training step of 22,800 ops has a few hundred.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.propagation.engine.aggressive import propagate_aggressive
from shardwright.propagation.engine.basic import propagate_basic
from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.preference import Preferred, propagate_anyhow, propagate_preferring
from shardwright.propagation.engine.projection import TensorProjection, project, unproject
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["Outcome", "Shardings", "Strategy", "Updates", "common_mesh", "outcome", "step"]

Shardings = tuple[TensorSharding | None, ...]
"""Shardings of an op's operands, then of its results."""

Updates = tuple[tuple[int, TensorSharding], ...]
"""`(tensor, new sharding)` pairs, operands first; empty where the step changes nothing."""


class Strategy(enum.Enum):
    """How conflicts between factors are settled."""

    BASIC = "basic"
    AGGRESSIVE = "aggressive"
    COST = "cost"

    __hash__ = object.__hash__  # strategies are keys; the hash that enumerations have of their own is slow


class Outcome(NamedTuple):
    """A step by factor: the op's tensors (operands, then results) before and after, and which were split further."""

    mesh: Mesh
    before: list[TensorProjection]
    after: list[TensorProjection]
    changed: list[bool]


def outcome(
    rule: ShardingRule,
    shardings: Shardings,
    directions: tuple[Direction, ...],
    elementwise: bool,
    strategy: Strategy | Preferred,
    conservative: bool,
) -> Outcome | None:
    """What a step does, by factor; nothing, where the tensors lie on different meshes or on one device. See `step`."""
    mesh = common_mesh(shardings)
    if mesh is None or mesh.is_maximal:
        return None
    sizes = rule.sizes
    mappings = rule.operands + rule.results
    before = [project(mapping, sharding, sizes) for mapping, sharding in zip(mappings, shardings, strict=True)]
    count = len(rule.operands)
    whole = mesh if conservative else None
    if strategy is Strategy.AGGRESSIVE:
        after, changed = propagate_aggressive(before[:count], before[count:], sizes, directions, elementwise, whole)
    elif strategy is Strategy.BASIC:
        after, changed = propagate_basic(before[:count], before[count:], sizes, directions, whole)
    elif strategy is Strategy.COST:
        after, changed = propagate_anyhow(before[:count], before[count:], sizes, directions, elementwise, whole)
    else:
        tensors = before[:count], before[count:]
        after, changed = propagate_preferring(strategy, *tensors, sizes, directions, elementwise, whole)
    return Outcome(mesh, before, after, changed)


@memoize
def step(
    rule: ShardingRule,
    shardings: Shardings,
    directions: tuple[Direction, ...],
    elementwise: bool,
    strategy: Strategy | Preferred = Strategy.AGGRESSIVE,
    conservative: bool = False,
) -> Updates:
    """What propagating through an op changes.

    Arguments:
        rule: The op's rule; `shardings` has one entry per operand and result of it.
        shardings: Shardings before the step; `None` where nothing is said yet.
        directions: For each factor, the way it may flow.
        elementwise: Whether the op counts as elementwise.
        strategy: Basic, aggressive, or which tensor is followed; by cost, something that changes if anything does.
        conservative: Whether only whole axes flow.

    Returns:
        The shardings that change. Nothing, where the tensors lie on different meshes.
    """
    result = outcome(rule, shardings, directions, elementwise, strategy, conservative)
    if result is None or True not in result.changed:
        return ()
    updates: list[tuple[int, TensorSharding]] = []
    mappings = rule.operands + rule.results
    for index, changed in enumerate(result.changed):
        if not changed:
            continue
        old = shardings[index]
        replicated, partial = (old.replicated, old.partial) if old is not None else ((), ())
        new = unproject(mappings[index], result.after[index].factors, rule.sizes, result.mesh, replicated, partial)
        if new != old and (old is not None or new.used_axes):
            updates.append((index, new))
    return tuple(updates)


def common_mesh(shardings: Shardings) -> Mesh | None:
    """The mesh all tensors lie on, meshes without axes left aside; `None` if there are two, or no sharding at all."""
    mesh: Mesh | None = None
    for sharding in shardings:
        if sharding is None:
            continue
        other = sharding.mesh
        if other is mesh:
            continue
        if mesh is None or _is_empty(mesh):
            mesh = other
        elif not _is_empty(other) and (other.axes, other.device_ids) != (mesh.axes, mesh.device_ids):
            return None
    return mesh


def _is_empty(mesh: Mesh) -> bool:
    return not mesh.axes and mesh.device_ids is None
