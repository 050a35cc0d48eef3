"""Who flows when: rounds of op priority, and user priority."""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.priorities import (
    ROUNDS,
    at_first,
    at_priority,
    directions,
    flow_of,
    later_priorities,
)
from shardwright.rules.facts import Flow
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.sharding import DimSharding, TensorSharding

_TYPE = TensorType((8, 8), "f32")
NONE, FORWARD, BACKWARD, BOTH = Direction.NONE, Direction.FORWARD, Direction.BACKWARD, Direction.BOTH


def _flow(name: str, **attributes: str) -> Flow:
    return flow_of(Signature(name, tuple(attributes.items()), (_TYPE,), (_TYPE,)))


def _by_round(flow: Flow, rule: ShardingRule, single_use: bool, factor: int = 0) -> list[Direction]:
    return [directions(flow, rule, single_use, round)[factor] for round in range(ROUNDS)]


def test_flows() -> None:
    assert _flow("stablehlo.tanh") is Flow.PASS_THROUGH
    assert _flow("stablehlo.reshape") is Flow.PASS_THROUGH
    assert _flow("stablehlo.dynamic_slice") is Flow.DYNAMIC_SLICE
    assert _flow("stablehlo.broadcast_in_dim") is Flow.BROADCAST
    assert _flow("stablehlo.dot_general") is Flow.OTHER
    assert _flow("sdy.propagation_barrier", allowed_direction="1 : i32") is Flow.FORWARD_BARRIER
    assert _flow("sdy.propagation_barrier", allowed_direction="0 : i32") is Flow.BARRIER


def test_pass_through_ops_with_single_use_operands_flow_at_once() -> None:
    rule = identity_rule((8,))
    assert _by_round(Flow.PASS_THROUGH, rule, True) == [BOTH] * 5
    assert _by_round(Flow.PASS_THROUGH, rule, False) == [NONE] + [BOTH] * 4


def test_slices_flow_forward_first_and_broadcasts_backward() -> None:
    rule = identity_rule((8,))
    assert _by_round(Flow.DYNAMIC_SLICE, rule, True) == [FORWARD, FORWARD, BOTH, BOTH, BOTH]
    assert _by_round(Flow.BROADCAST, rule, True) == [NONE, NONE, BACKWARD, BACKWARD, BOTH]


def test_other_ops_flow_along_pass_through_factors_first() -> None:
    rule = ShardingRule((8, 8), (((0,), (1,)),), (((0,),),), reduction=frozenset({1}))
    assert _by_round(Flow.OTHER, rule, True, 0) == [NONE, NONE, BOTH, BOTH, BOTH]
    assert _by_round(Flow.OTHER, rule, True, 1) == [NONE, NONE, NONE, BOTH, BOTH]


def test_blocked_factors_never_flow() -> None:
    rule = ShardingRule((8,), (((0,),),), (((0,),),), blocked=frozenset({0}))
    assert _by_round(Flow.PASS_THROUGH, rule, True) == [NONE] * 5


def test_later_dimensions_wait_closed_with_their_axes_replicated() -> None:
    mesh = Mesh(x=2, y=2)
    x, y = mesh.axis("x"), mesh.axis("y")
    original = TensorSharding(mesh, (DimSharding((y,), True, 1), DimSharding((x,), True, 0)))
    first = at_first(original)
    assert first == TensorSharding(mesh, (DimSharding(), DimSharding((x,), True)), (y,))
    assert later_priorities(original) == {1}
    assert at_priority(first, original, 1) == TensorSharding(mesh, (DimSharding((y,), True), DimSharding((x,), True)))
