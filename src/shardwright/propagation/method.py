"""The strategies by name: which phases propagation goes through.

| name | user priority | op priority | who wins |
| --- | --- | --- | --- |
| `basic` | | | basic |
| `aggressive` | | | aggressive, or as asked |
| `op-priority` | | five rounds | aggressive, or as asked |
| `user-priority` | one after the other | five rounds within each | aggressive, or as asked |
| `user-priority-only` | one after the other | | aggressive, or as asked |
| `cost` | one after the other | five rounds within each | what takes less time |

Each but the last is the `sdy` pass of that name (`sdy-user-priority-propagate`), `user-priority-only` the one of
`user-priority` with the option `run-op-priority-propagation=false`; the option `propagation-strategy` of those is
`factors` here. `cost` is `user-priority` with the factors `cost`, which the C++ has not: see `engine/rivals`.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.propagation.engine.priorities import ROUNDS
from shardwright.propagation.engine.step import Strategy

__all__ = ["FACTORS", "STRATEGIES", "Method", "Phase", "method"]

FACTORS: dict[str, tuple[Strategy, ...]] = {
    "aggressive": (Strategy.AGGRESSIVE,),
    "basic": (Strategy.BASIC,),
    "basic-then-aggressive": (Strategy.BASIC, Strategy.AGGRESSIVE),
    "cost": (Strategy.COST,),
}
"""How conflicts between factors are settled, by name."""

STRATEGIES = ("basic", "aggressive", "op-priority", "user-priority", "user-priority-only", "cost")
"""The names of the strategies, each of the first four built on the one before; then one without the rounds of op
priority, and one with conflicts settled by time."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One sweep over the program: its round of op priority (the last allows everything) and its strategy."""

    round: int
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Method:
    """How to propagate.

    Attributes:
        phases: The sweeps, in order; all of them for each user priority.
        user_priority: Whether dimensions of later priorities wait for their turn.
        conservative: Whether only whole axes flow.
        by_cost: Whether shardings that compete are priced, and the cheapest wins.
        as_compiled: Whether ops are what XLA makes of them when JAX compiles a program, in rounds of op priority.
    """

    phases: tuple[Phase, ...]
    user_priority: bool = True
    conservative: bool = False
    by_cost: bool = False
    as_compiled: bool = False


def method(strategy: str = "user-priority", factors: str = "aggressive", conservative: bool = False) -> Method:
    """The method that a strategy's name stands for; `basic` and `cost` leave `factors` no choice.

    Raises:
        ShardingError: an unknown name.
    """
    if strategy not in STRATEGIES:
        raise ShardingError(f"unknown strategy {strategy!r}", remedy=f"one of {', '.join(STRATEGIES)}, rfc")
    if factors not in FACTORS:
        raise ShardingError(f"unknown way {factors!r} to settle conflicts", remedy=f"one of {', '.join(FACTORS)}")
    ways = FACTORS[strategy if strategy in ("basic", "cost") else factors]
    rounds = range(ROUNDS) if strategy.endswith(("-priority", "cost")) else (ROUNDS - 1,)
    phases = tuple(Phase(round, way) for round in rounds for way in ways)
    return Method(phases, strategy.startswith(("user-priority", "cost")), conservative, ways[0] is Strategy.COST)
