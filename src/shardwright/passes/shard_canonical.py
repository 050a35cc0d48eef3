"""What `-canonicalize` does with ops of the `shard` dialect, beside what MLIR's pass does with others.

    all_reduce %x on @g : T -> T                              %x: nobody else takes part
    %c = constant 1; sharding … halo_sizes = [%c, 2]          sharding … halo_sizes = [1, 2]
    sharding … halo_sizes = [0, 0]                            sharding …
    sharding … sharded_dims_offsets = [0, 3, 6]               sharding …: shards of one size need not be told
    shard %x to %s; shard %x to %s                            one `shard.shard`, the first
    %0 = shard %x to %s; %1 = shard %x to %t                  %1 = shard %0 to %t: one is said after the other

and what nothing reads goes, but for `send` and `recv`. `notation.shard.canonical` knows how the first three go, and
says of its own which offsets are even and which annotations are one; here both are as upstream has them.

Source: MLIR's `shard` dialect, the canonicalizations of its ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from shardwright.ir.context import ir
from shardwright.notation.shard.canonical import GROUPS, folded, without_group
from shardwright.notation.shard.read import DYNAMIC
from shardwright.passes.edits import replace_by
from shardwright.passes.shard_dialect import erase_dead, is_free, known, shard_ops

__all__ = ["canonicalize_shard_ops"]

_SEGMENTS = "operandSegmentSizes"


def canonicalize_shard_ops(module: ir.Module) -> bool:
    """Simplify ops of the dialect one by one, once; whether anything changed."""
    changed = erase_dead(list(shard_ops(module.operation)), is_free)
    for op in list(shard_ops(module.operation)):
        if op.name in GROUPS:
            changed |= without_group(op)
        elif known(op) == "sharding":
            changed |= folded(op, _is_of_one_step)
    for op in reversed([op for op in shard_ops(module.operation) if known(op) == "shard"]):
        changed |= _again(op)
    return changed


def _is_of_one_step(op: Any, offsets: Sequence[int]) -> bool:
    """Whether offsets are as far apart from one to the next, over all dimensions: what upstream takes for even."""
    steps = {after - before for before, after in pairwise(offsets)}
    return len(offsets) > 2 and len(steps) == 1 and DYNAMIC not in offsets


def _again(op: Any) -> bool:
    """Of two `shard.shard` of a value, the second is the first where both say the same, and else is of what that gives.

    Which two: this one, and who read the value last but for it, as upstream has it.
    """
    value = op.operands[0]
    other = next((owner for use in value.uses if (owner := use.owner.operation) != op), None)
    if other is None or other.name != op.name or other.block != op.block or other.operands[0] != value:
        return False
    first, second = (op, other) if op.is_before_in_block(other) else (other, op)
    if _says(first.operands[1]) == _says(second.operands[1]):
        replace_by(second, first.results)
    else:
        second.operands[0] = first.results[0]
    return True


def _says(sharding: Any) -> object:
    """What a sharding says; what makes it, where that is not known."""
    if isinstance(sharding, ir.BlockArgument) or known(sharding.owner.operation) != "sharding":
        return sharding
    op = sharding.owner.operation
    texts = {name: str(attribute) for name, attribute in op.attributes.items() if name != _SEGMENTS}
    return tuple(sorted(texts.items())), tuple(op.operands)
