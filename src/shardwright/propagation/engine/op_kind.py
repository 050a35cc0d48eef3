"""What the ops of one class have in common, so that they share their step tables."""

from __future__ import annotations

from typing import NamedTuple

from shardwright.propagation.engine.worklist import Transform
from shardwright.rules.facts import Flow
from shardwright.rules.rule import ShardingRule

__all__ = ["Kind"]


class Kind(NamedTuple):
    """What ops of one class have in common.

    Attributes:
        flow: How willing they are to pass shardings on.
        rule: Their rule.
        single_use: Whether their operands have no other users.
        elementwise: Whether they count as elementwise.
        conservative: Whether only whole axes flow.
        before: For edges of manual computations, from the last tensor's sharding to what a step sees.
        after: And back.
    """

    flow: Flow
    rule: ShardingRule
    single_use: bool = True
    elementwise: bool = False
    conservative: bool = False
    before: Transform | None = None
    after: Transform | None = None
