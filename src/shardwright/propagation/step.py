"""One propagation step through one op, as a pure function of its rule and shardings. Memoized.

A program has many ops but few different steps: a GPT training step of 22,800 ops has a few hundred.
"""

from __future__ import annotations

import enum

from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.propagation.aggressive import propagate_aggressive
from shardwright.propagation.basic import propagate_basic
from shardwright.propagation.compatible import Direction
from shardwright.propagation.projection import project, unproject
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["Shardings", "Strategy", "Updates", "common_mesh", "step"]

Shardings = tuple[TensorSharding | None, ...]
"""Shardings of an op's operands, then of its results."""

Updates = tuple[tuple[int, TensorSharding], ...]
"""`(tensor, new sharding)` pairs, operands first; empty where the step changes nothing."""


class Strategy(enum.Enum):
    """How conflicts between factors are settled."""

    BASIC = "basic"
    AGGRESSIVE = "aggressive"


@memoize
def step(
    rule: ShardingRule,
    shardings: Shardings,
    directions: tuple[Direction, ...],
    elementwise: bool,
    strategy: Strategy = Strategy.AGGRESSIVE,
) -> Updates:
    """What propagating through an op changes.

    Arguments:
        rule: The op's rule; `shardings` has one entry per operand and result of it.
        shardings: Shardings before the step; `None` where nothing is said yet.
        directions: For each factor, the way it may flow.
        elementwise: Whether the op counts as elementwise.
        strategy: Basic or aggressive.

    Returns:
        The shardings that change. Nothing, where the tensors lie on different meshes.
    """
    mesh = common_mesh(shardings)
    if mesh is None or mesh.is_maximal:
        return ()
    sizes = rule.sizes
    mappings = rule.operands + rule.results
    before = [project(mapping, said, sizes) for mapping, said in zip(mappings, shardings, strict=True)]
    count = len(rule.operands)
    if strategy is Strategy.BASIC:
        after, changed = propagate_basic(before[:count], before[count:], sizes, directions)
    else:
        after, changed = propagate_aggressive(before[:count], before[count:], sizes, directions, elementwise)
    updates: list[tuple[int, TensorSharding]] = []
    for index, mapping in enumerate(mappings):
        if not changed[index]:
            continue
        old = shardings[index]
        replicated, partial = (old.replicated, old.partial) if old is not None else ((), ())
        new = unproject(mapping, after[index].factors, sizes, mesh, replicated, partial)
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
        if mesh is None or _is_empty(mesh):
            mesh = other
        elif not _is_empty(other) and (other.axes, other.device_ids) != (mesh.axes, mesh.device_ids):
            return None
    return mesh


def _is_empty(mesh: Mesh) -> bool:
    return not mesh.axes and mesh.device_ids is None
