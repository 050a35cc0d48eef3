"""What is propagated first: op priority and user priority.

**Op priority.** Five rounds, each allowing more than the one before. First flows what costs nothing: through ops that
only rename or recompute data, and only where the data has one user, so that no other user can disagree. Matrix
products and other ops follow, first along factors that need no communication. Broadcasts come last forward: their
operand is small, and what its sharding suggests should not bind the large result.

**User priority.** Dimensions of priority 1, 2, … wait for their turn: until then they are closed, empty, and their axes
replicated, so that nobody else can put these axes on the tensor.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.axes import Axes
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.propagation.engine.compatible import Direction
from shardwright.rules.facts import Flow
from shardwright.rules.rule import ShardingRule
from shardwright.rules.traits import adds_unit_dims, facts_of, is_elementwise
from shardwright.sharding import DimSharding, TensorSharding

__all__ = [
    "BARRIERS",
    "ROUNDS",
    "allowed",
    "at_first",
    "at_priority",
    "directions",
    "flow_of",
    "later_priorities",
]

ROUNDS = 5
"""Rounds of op priority."""


BARRIERS = frozenset({Flow.FORWARD_BARRIER, Flow.BACKWARD_BARRIER, Flow.BARRIER})
"""The flows of `sdy.propagation_barrier`."""


@memoize
def flow_of(signature: Signature, as_compiled: bool = False) -> Flow:
    """The flow of an op.

    Arguments:
        signature: The op.
        as_compiled: Whether it is what XLA makes of it when JAX compiles a program: HLO has no broadcast that only adds
            dimensions of size 1, which is a reshape there.
    """
    if signature.name == "sdy.propagation_barrier":
        return _barrier(signature)
    if is_elementwise(signature) or (as_compiled and adds_unit_dims(signature)):
        return Flow.PASS_THROUGH
    return facts_of(signature.label).flow or Flow.OTHER


def _barrier(signature: Signature) -> Flow:
    text = signature.text("allowed_direction") or ""
    if "FORWARD" in text or text.startswith("1 "):
        return Flow.FORWARD_BARRIER
    if "BACKWARD" in text or text.startswith("2 "):
        return Flow.BACKWARD_BARRIER
    return Flow.BARRIER


def directions(flow: Flow, rule: ShardingRule, single_use: bool, round: int) -> tuple[Direction, ...]:
    """Where each factor of an op may flow in a round (0 to 4).

    Arguments:
        flow: The op's flow.
        rule: Its rule; factors along which propagation is blocked never flow.
        single_use: Whether every operand, scalars aside, is used by this op only.
        round: The round.
    """
    plain, other = allowed(flow, single_use, round)
    if plain is other and not rule.blocked:
        return (plain,) * len(rule.sizes)
    special, blocked = rule.special, rule.blocked
    return tuple(
        [
            Direction.NONE if factor in blocked else other if factor in special else plain
            for factor in range(len(rule.sizes))
        ]
    )


def allowed(flow: Flow, single_use: bool, round: int) -> tuple[Direction, Direction]:
    """Where factors of an op may flow in a round: those that split all tensors alike, and others."""
    return _ALLOWED[flow, single_use][round]


def _direction(flow: Flow, plain: bool, single_use: bool, round: int) -> Direction:
    if flow is Flow.FORWARD_BARRIER:
        return Direction.FORWARD
    if flow is Flow.BACKWARD_BARRIER:
        return Direction.BACKWARD
    if flow is Flow.BARRIER:
        return Direction.NONE
    ways = Direction.NONE
    if round >= 1 or single_use:
        if flow is Flow.PASS_THROUGH:
            ways |= Direction.BOTH
        elif flow is Flow.DYNAMIC_SLICE:
            ways |= Direction.FORWARD
    if round >= 3 or (round == 2 and plain):
        ways |= Direction.BACKWARD if flow is Flow.BROADCAST else Direction.BOTH
    return ways if round < ROUNDS - 1 else Direction.BOTH


_ALLOWED = {
    (flow, single_use): [
        (_direction(flow, True, single_use, round), _direction(flow, False, single_use, round))
        for round in range(ROUNDS)
    ]
    for flow in Flow
    for single_use in (False, True)
}


def later_priorities(sharding: TensorSharding) -> frozenset[int]:
    """The priorities above 0 of its dimensions."""
    return frozenset(dim.priority for dim in sharding.dims if dim.priority)


def at_first(sharding: TensorSharding) -> TensorSharding:
    """A sharding at priority 0: what has a later one is closed, empty, and replicated instead."""
    if all(dim.priority is None for dim in sharding.dims):
        return sharding
    hidden: Axes = tuple(axis for dim in sharding.dims if dim.priority for axis in dim.axes)
    dims = tuple(DimSharding() if dim.priority else replace(dim, priority=None) for dim in sharding.dims)
    replicated = tuple(sorted(sharding.replicated + hidden, key=sharding.mesh.sort_key))
    return replace(sharding, dims=dims, replicated=replicated)


def at_priority(now: TensorSharding, original: TensorSharding, priority: int) -> TensorSharding:
    """A sharding as it is `now` with the dimensions of `priority` given back from the `original`."""
    dims = tuple(
        replace(first, priority=None) if (first.priority or 0) == priority else current
        for current, first in zip(now.dims, original.dims, strict=True)
    )
    shown = {axis for dim in original.dims if (dim.priority or 0) == priority for axis in dim.axes}
    replicated = tuple(axis for axis in now.replicated if axis not in shown)
    return replace(now, dims=dims, replicated=replicated)
