"""Patterns, applied to a program until none of them finds anything to change.

The last op is looked at first, so that what nobody reads any more is met after what read it. An op that a change gives
a reason to look at comes next. Source: MLIR's greedy pattern rewrite driver, less its folding and its deletion of dead
ops: what is dead is known to `rules`, which stand above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from shardwright.ir.graph import Op
from shardwright.ir.rewrite.rewriter import Rewriter

__all__ = ["Pattern", "apply_patterns"]

_MOST_CHANGES = 16
"""How often patterns may change something for each op that the program had, if not more is allowed."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is done to ops of some names.

    Attributes:
        names: The names of the ops that it looks at.
        rewrite: Looks at such an op, and says whether it has changed anything: all changes go through the rewriter.
    """

    names: Collection[str]
    rewrite: Callable[[Op, Rewriter], bool]


def apply_patterns(
    rewriter: Rewriter, patterns: Sequence[Pattern], *, most: int | None = None, waiting: dict[Op, None] | None = None
) -> int:
    """Apply patterns, of those for one op the first that changes something, until no op has one that does.

    Arguments:
        rewriter: Changes the program. What it was told to tell of ops, it is not told meanwhile.
        patterns: The patterns, those preferred first.
        most: After how many changes to give up.
        waiting: The ops to look at, the last of them first; all where that is not said. It is kept up to date: while a
            pattern looks at an op, the others are in it.

    Returns:
        How often a pattern changed something.

    Raises:
        RuntimeError: there is still something to change after `most` changes: one pattern undoes what another does.
    """
    by_name: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        for name in pattern.names:
            by_name.setdefault(name, []).append(pattern)
    rewriter.write()
    ops = rewriter.block.walk()
    if waiting is None:
        waiting = dict.fromkeys(op for op in ops if op.name in by_name)
    most = _MOST_CHANGES * len(ops) if most is None else most

    def tell(op: Op, waiting: dict[Op, None] = waiting) -> None:
        if op.name in by_name:
            waiting[op] = None

    before, rewriter.tell = rewriter.tell, tell
    try:
        return _drain(rewriter, waiting, by_name, most)
    finally:
        rewriter.tell = before


def _drain(rewriter: Rewriter, waiting: dict[Op, None], by_name: dict[str, list[Pattern]], most: int) -> int:
    count = 0
    while waiting:
        op, _ = waiting.popitem()
        if op not in rewriter or not any(pattern.rewrite(op, rewriter) for pattern in by_name[op.name]):
            continue
        count += 1
        if count > most:
            raise RuntimeError(f"patterns find no end: the last of {count} changes was of {op!r}")
        if op in rewriter:
            waiting[op] = None
    return count
