"""Which ops do something besides computing their results, and so stay though nobody reads those."""

from __future__ import annotations

from shardwright.ir.context import is_registered
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import CALLS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.traits import facts_of

__all__ = ["is_pure", "remove_dead"]

_CUSTOM_CALLS = frozenset({"stablehlo.custom_call", "mhlo.custom_call"})


def is_pure(op: Op) -> bool:
    """Whether an op, and all ops in its regions, can be left out when nobody reads its results."""
    if not _is_pure(op.signature):
        return False
    return all(is_pure(inner) for region in op.regions for inner in region.ops[:-1])


def remove_dead(block: Block, types: int) -> None:
    """Take out of `block`, and of the regions in it, what has no effect and no reader; there are `types` values."""
    counts = [0] * types
    for op in block.walk():
        for value in op.operands:
            counts[value] += 1
    _sweep(block, counts)


def _sweep(block: Block, counts: list[int]) -> None:
    kept: list[Op] = []
    for op in reversed(block.ops):
        if op.results and not any(counts[value] for value in op.results) and is_pure(op):
            for value in op.reads():
                counts[value] -= 1
            continue
        for region in op.regions:
            _sweep(region, counts)
        kept.append(op)
    kept.reverse()
    block.ops = kept


@memoize
def _is_pure(signature: Signature) -> bool:
    """Whether an op is pure but for its regions; of calls, and of ops that MLIR does not know, nobody can tell.

    As jaxlib's Shardy has it: a dead op that MLIR knows, and of which no effects are declared, disappears.
    """
    name = signature.name
    if name in _CUSTOM_CALLS:
        return not signature.get("has_side_effect", False)
    return not facts_of(name).effects and name not in CALLS and is_registered(name)
