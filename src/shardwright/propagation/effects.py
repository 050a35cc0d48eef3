"""Which ops do something besides computing their results, and so stay though nobody reads those."""

from __future__ import annotations

from shardwright.ir.context import is_registered
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import CALLS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize

__all__ = ["is_pure", "remove_dead"]

_STABLEHLO = (
    "all_gather all_reduce all_to_all collective_broadcast collective_permute collective_reduce "
    "infeed outfeed recv reduce_scatter return rng send"
)
_IMPURE = frozenset(f"stablehlo.{name}" for name in _STABLEHLO.split()) | {
    "func.return",
    "sdy.all_gather",
    "sdy.all_reduce",
    "sdy.all_slice",
    "sdy.all_to_all",
    "sdy.collective_permute",
    "sdy.data_flow_edge",
    "sdy.reduce_scatter",
    "sdy.return",
    "sdy.sharding_constraint",
    "sdy.sharding_group",
}
"""As jaxlib's Shardy treats them: a dead op of any other name that MLIR knows disappears in propagation."""
_CUSTOM_CALLS = frozenset({"stablehlo.custom_call", "mhlo.custom_call"})


def is_pure(op: Op) -> bool:
    """Whether an op, and all ops in its regions, can be left out when nobody reads its results."""
    if not _is_pure(op.signature):
        return False
    return all(is_pure(inner) for region in op.regions for inner in region.ops[:-1])


def remove_dead(block: Block, types: int) -> None:
    """Take out of `block`, and of the regions in it, what has no effect and no reader; there are `types` values."""
    counts = [0] * types
    _count(block, counts)
    _sweep(block, counts)


def _count(block: Block, counts: list[int]) -> None:
    for op in block.ops:
        for value in op.operands:
            counts[value] += 1
        for region in op.regions:
            _count(region, counts)


def _sweep(block: Block, counts: list[int]) -> None:
    kept: list[Op] = []
    for op in reversed(block.ops):
        if op.results and not any(counts[value] for value in op.results) and is_pure(op):
            _forget(op, counts)
            continue
        for region in op.regions:
            _sweep(region, counts)
        kept.append(op)
    kept.reverse()
    block.ops = kept


def _forget(op: Op, counts: list[int]) -> None:
    for value in op.operands:
        counts[value] -= 1
    for region in op.regions:
        for inner in region.ops:
            _forget(inner, counts)


@memoize
def _is_pure(signature: Signature) -> bool:
    """Whether an op is pure but for its regions; of calls, and of ops that MLIR does not know, nobody can tell."""
    name = signature.name
    if name in _CUSTOM_CALLS:
        return not signature.get("has_side_effect", False)
    return name not in _IMPURE and name not in CALLS and is_registered(name)
