"""The strategies that users choose among, and what each is in a few words."""

from __future__ import annotations

from shardwright.errors import ShardingError

__all__ = ["DEFAULT_STRATEGY", "PRICED_STRATEGIES", "STRATEGY_WORDS", "check_strategy"]

DEFAULT_STRATEGY = "user-priority"

STRATEGY_WORDS = {
    "user-priority": "Shardy's: dimensions by their priorities, for each of these ops in rounds",
    "user-priority-only": "dimensions by their priorities, all ops at once",
    "op-priority": "ops in rounds, elementwise ones first; dimensions have no priorities",
    "aggressive": "all at once; where axes compete, each goes as far as it can",
    "basic": "all at once; the tensors of an op all take an axis, or none does",
    "cost": "as user-priority, but where shardings compete, the one that takes less time wins",
    "rfc": "the mesh RFC's: backward once, forward once; hints that lose are listed",
}
"""What every strategy does, by its name; see `method.STRATEGIES` and `rfc`."""

PRICED_STRATEGIES = ("cost",)
"""Those that ask what the hardware of the session takes."""


def check_strategy(name: str) -> None:
    """Whether there is a strategy of that name.

    Raises:
        ShardingError: there is none.
    """
    if name not in tuple(STRATEGY_WORDS):
        raise ShardingError(f"unknown strategy {name!r}", remedy=f"one of {', '.join(STRATEGY_WORDS)}")
