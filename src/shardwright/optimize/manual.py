"""Manual computations in place of ops of an explicit program: what sdy has no ops for, as one device does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.ir.graph import Op
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.partition.enclose import manual_body
from shardwright.partition.localize.local import Local

__all__ = ["compute_before", "replace"]


def compute_before(
    program: ExplicitProgram,
    op: Op,
    taken: Sequence[int],
    results: Sequence[int],
    write: Callable[[Local, Sequence[int]], Sequence[int]],
    reason: str,
) -> Op:
    """Put a manual computation just before an op.

    Arguments:
        program: Where the op stands.
        op: The op, where the computation is said to come from.
        taken: The values that it reads.
        results: The values that it gives, which nothing makes so far.
        write: What one device does (`partition.enclose.manual_body`).
        reason: Why.
    """
    block, rewriter = program.block_of(op), program.rewriter
    assert block is not None, "computations are put where the program may be changed"
    made = manual_body(program.graph, taken, results, write, location=op.location)
    rewriter.insert(made, rewriter.before(op), reason)
    program.came(made, block)
    return made


def replace(program: ExplicitProgram, op: Op, values: Sequence[int], reason: str) -> None:
    """Let values be read in place of an op's results, and take it out."""
    program.gone(op)
    program.rewriter.replace(op, values, reason)
