"""Programs whose ops are split as is said for the situations that they are in.

Ops of blocks that repeat find themselves in the same situation: what is said of one is said of all.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from shardwright.partition.assign import cheapest_choices
from shardwright.partition.op_split import Situation, Split, split_alike, split_as
from shardwright.partition.ways import Choice

__all__ = ["Exceptions", "Following", "as_it_lies", "cheapest", "is_alike"]

Exceptions = Mapping[Situation, Choice]
"""How ops are split that are not split as is cheapest for each by itself."""


def cheapest(situation: Situation, most: int) -> tuple[Choice, ...]:
    """The cheapest ways to split an op by itself, the cheapest first."""
    signature, sources, _, passing, _, hardware, unread, _ = situation
    return cheapest_choices(signature, sources, situation.targets, passing, hardware, unread, most)


def as_it_lies(situation: Situation, most: int) -> Choice | None:
    """The cheapest of so many ways in which each operand is read as it lies, if there is one."""
    for choice in cheapest(situation, most):
        pairs = zip(choice.operands, situation.sources, strict=True)
        if all(not source or layout in source for layout, source in pairs):
            return choice
    return None


def is_alike(one: Choice, other: Choice) -> bool:
    """Whether an op is split in the same way."""
    return (one.operands, one.results) == (other.operands, other.results)


class Following:
    """How ops are split with some exceptions.

    Attributes:
        exceptions: What is split otherwise than is cheapest for the op by itself.
        met: The situations that ops were in, each once, as first met.
    """

    def __init__(self, exceptions: Exceptions, known: Container[Situation] | None = None, ways: int = 0) -> None:
        """Split as these say, and else as is cheapest for the op by itself.

        Arguments:
            exceptions: What is said.
            known: Ops in all other situations are split as their operands lie, where one of the cheapest ways does so.
            ways: How many of the cheapest.
        """
        self.exceptions = dict(exceptions)
        self._known = known
        self._ways = ways
        self.met: dict[Situation, Split] = {}

    def __call__(self, situation: Situation) -> Split:
        """The split of an op in a situation."""
        split = self.met.get(situation)
        if split is None:
            split = self.met[situation] = self._split(situation)
        return split

    def _split(self, situation: Situation) -> Split:
        by_itself = split_alike(situation)
        choice = self.exceptions.get(situation)
        if choice is None and self._known is not None and situation not in self._known:
            choice = as_it_lies(situation, self._ways)
            if choice is not None and not is_alike(choice, by_itself.choice):
                self.exceptions[situation] = choice
        if choice is None or is_alike(choice, by_itself.choice):
            return by_itself
        return split_as(choice._replace(for_program=True), situation)
