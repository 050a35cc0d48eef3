"""What `-canonicalize` does with ops of the `shard` dialect, beside what MLIR's pass does with others.

    all_reduce %x on @g : T -> T                              %x: nobody else takes part
    %c = constant 1; sharding … halo_sizes = [%c, 2]          sharding … halo_sizes = [1, 2]
    sharding … halo_sizes = [0, 0]                            sharding …
    sharding … sharded_dims_offsets = [0, 3, 6]               sharding …: shards of one size need not be told
    shard %x to %s; shard %x to %s                            one `shard.shard`, the first
    %0 = shard %x to %s; %1 = shard %x to %t                  %1 = shard %0 to %t: one is said after the other

and what nothing reads goes, but for `send` and `recv`.

Source: MLIR's `shard` dialect, the canonicalizations of its ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from shardwright.ir.context import context, ir
from shardwright.notation.shard.read import DYNAMIC
from shardwright.passes.edits import replace_by
from shardwright.passes.shard_dialect import (
    COLLECTIVES,
    axes_of,
    constant_of,
    erase_dead,
    is_free,
    known,
    shard_ops,
)

__all__ = ["canonicalize_shard_ops"]

_HALOS, _OFFSETS = "static_halo_sizes", "static_sharded_dims_offsets"
_SEGMENTS = "operandSegmentSizes"


def canonicalize_shard_ops(module: ir.Module) -> bool:
    """Simplify ops of the dialect one by one, once; whether anything changed."""
    changed = erase_dead(list(shard_ops(module.operation)), is_free)
    for op in list(shard_ops(module.operation)):
        name = known(op)
        if name in COLLECTIVES:
            changed |= _without_axes(op)
        elif name == "sharding":
            changed |= _told(op)
    for op in reversed([op for op in shard_ops(module.operation) if known(op) == "shard"]):
        changed |= _again(op)
    return changed


def _without_axes(op: Any) -> bool:
    """Along no axes nothing is exchanged."""
    if axes_of(op) or not op.operands or op.operands[0].type != op.results[0].type:
        return False
    replace_by(op, [op.operands[0]])
    return True


def _told(op: Any) -> bool:
    """A sharding whose numbers stand in it, without those that say nothing."""
    halos, offsets = _numbers(op, _HALOS), _numbers(op, _OFFSETS)
    segments = list(ir.DenseI32ArrayAttr(op.attributes[_SEGMENTS])) if _SEGMENTS in op.attributes else [0, 0]
    operands = list(op.operands)
    read_offsets, offsets_now = _filled(offsets, operands[: segments[0]])
    read_halos, halos_now = _filled(halos, operands[segments[0] :])
    if halos_now and not any(halos_now):
        halos_now = []
    steps = {after - before for before, after in pairwise(offsets_now)}
    if len(offsets_now) > 2 and len(steps) == 1 and not read_offsets:
        offsets_now = []
    if (halos_now, offsets_now) == (halos, offsets):
        return False
    attributes = dict(op.attributes.items())
    for key, numbers in ((_HALOS, halos_now), (_OFFSETS, offsets_now)):
        attributes.pop(key, None)
        if numbers:
            attributes[key] = ir.DenseI64ArrayAttr.get(numbers, context=context())
    attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get([len(read_offsets), len(read_halos)], context=context())
    made = ir.Operation.create(
        op.name,
        results=[result.type for result in op.results],
        operands=[*read_offsets, *read_halos],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    replace_by(op, made.results)
    return True


def _numbers(op: Any, key: str) -> list[int]:
    return list(ir.DenseI64ArrayAttr(op.attributes[key])) if key in op.attributes else []


def _filled(numbers: Sequence[int], operands: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """The operands that are still read, and numbers, those in place of which constants are read among them."""
    left, filled, reads = [], list(numbers), iter(operands)
    for place, number in enumerate(numbers):
        if number == DYNAMIC:
            value = next(reads)
            constant = constant_of(value)
            if constant is None:
                left.append(value)
            else:
                filled[place] = constant
    return left, filled


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
