"""The canonical form of modules in the `shard` dialect, on MLIR itself, where its ops stand in generic form.

 - A collective over no axes that keeps its type goes.
 - Halo sizes and offsets that are constants become numbers of the sharding.
 - Halos that are all zero go, and offsets that cut every split dimension into equal shards.
 - Of two equal annotations of one value the second goes.

Source: the canonicalization patterns of MLIR's `shard` dialect (ShardOps.cpp). Two differences: offsets are compared
dimension by dimension, and annotations that differ, or differ in whom they are for, are left alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.ir.walk import walk
from shardwright.notation.forms.kinds import AXES, DYNAMIC, I64_ARRAY
from shardwright.notation.shard.dialect.collectives import COLLECTIVE_FORMS

__all__ = ["GROUPS", "canonicalize", "folded", "without_group"]

_PREFIXES = ("shard.", "mesh.")
_SHARDINGS = ("shard.sharding", "mesh.sharding")
GROUPS = frozenset(form.name for form in COLLECTIVE_FORMS) - {"shard.shift"}
"""The collectives that may be over no axes."""

_OFFSETS = "static_sharded_dims_offsets"
_HALOS = "static_halo_sizes"
_SEGMENTS = "operandSegmentSizes"

Values = Sequence["ir.Value[Any]"]


def canonicalize(module: ir.Module) -> int:
    """Bring a module into canonical form, in place; the number of rewrites.

    The module is taken to be verified, as `texts.to_generic` does.
    """
    with context(), ir.Location.unknown():
        work = _Worklist()
        walk(module.operation, work.take)
        rewrites = sum(without_group(op) for op in work.collectives)
        shardings = [folded(op, partial(_even, work.grids)) for op in work.shardings]
        return rewrites + sum(shardings) + _without_duplicates(work.annotations)


@dataclass(slots=True)
class _Worklist:
    """The ops concerned, in the order of the text."""

    grids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    collectives: list[ir.Operation] = field(default_factory=list)
    shardings: list[ir.Operation] = field(default_factory=list)
    annotations: list[ir.Operation] = field(default_factory=list)

    def take(self, op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if not name.startswith(_PREFIXES):
            return ir.WalkResult.ADVANCE
        if name == "shard.grid":
            self.grids[ir.StringAttr(op.attributes["sym_name"]).value] = _numbers(op, "shape")
        elif name in _SHARDINGS:
            self.shardings.append(op.operation)
        elif name == "shard.shard":
            self.annotations.append(op.operation)
        elif name in GROUPS:
            self.collectives.append(op.operation)
        return ir.WalkResult.ADVANCE


def _numbers(op: ir.Operation, name: str) -> tuple[int, ...]:
    return tuple(I64_ARRAY.decode(str(op.attributes[name]))) if name in op.attributes else ()


def without_group(op: ir.Operation) -> bool:
    """Drop a collective over no axes: each device is its own group."""
    if "grid_axes" in op.attributes and len(ir.DenseI16ArrayAttr(op.attributes["grid_axes"])):
        return False
    if op.results[0].type != op.operands[0].type:
        return False
    op.results[0].replace_all_uses_with(op.operands[0])
    erase(op)
    return True


def _constant(value: ir.Value[Any]) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value


def _with_constants(numbers: Sequence[int], values: Values) -> tuple[tuple[int, ...], list[ir.Value[Any]]]:
    """Numbers with what is known of their dynamic entries filled in, and the values that remain."""
    rest = iter(values)
    filled: list[int] = []
    remaining: list[ir.Value[Any]] = []
    for number in numbers:
        if number == DYNAMIC:
            value = next(rest)
            known = _constant(value)
            if known is None:
                remaining.append(value)
            else:
                number = known
        filled.append(number)
    return tuple(filled), remaining


def folded(op: ir.Operation, is_even: Callable[[ir.Operation, Sequence[int]], bool]) -> bool:
    """Fold the constants of a sharding, and drop halos that are zero and offsets that are even."""
    old_offsets, old_halos = _numbers(op, _OFFSETS), _numbers(op, _HALOS)
    if not old_offsets and not old_halos:
        return False
    operands = list(op.operands)
    first = old_offsets.count(DYNAMIC)
    offsets, cuts = _with_constants(old_offsets, operands[:first])
    halos, sizes = _with_constants(old_halos, operands[first:])
    if halos and not any(halos):
        halos = ()
    if offsets and is_even(op, offsets):
        offsets = ()
    if (offsets, halos) == (old_offsets, old_halos):
        return False
    _replace(op, {_OFFSETS: offsets, _HALOS: halos}, cuts, sizes)
    return True


def _even(grids: Mapping[str, tuple[int, ...]], op: ir.Operation, offsets: Sequence[int]) -> bool:
    """Whether each split dimension begins at 0 and has shards of one size."""
    grid = grids.get(ir.FlatSymbolRefAttr(op.attributes["grid" if "grid" in op.attributes else "mesh"]).value)
    if grid is None:
        return False
    rest = iter(offsets)
    for axes in AXES.decode(str(op.attributes["split_axes"])):
        if axes:
            cuts = list(itertools.islice(rest, math.prod(grid[axis] for axis in axes) + 1))
            if DYNAMIC in cuts or cuts[0] or len({b - a for a, b in itertools.pairwise(cuts)}) > 1:
                return False
    return True


def _replace(op: ir.Operation, lists: dict[str, tuple[int, ...]], cuts: Values, sizes: Values) -> None:
    attributes = dict(op.attributes.items())
    for name, numbers in lists.items():
        attributes.pop(name, None)
        if numbers:
            attributes[name] = ir.DenseI64ArrayAttr.get(list(numbers), context=context())
    attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get([len(cuts), len(sizes)], context=context())
    new = ir.Operation.create(
        op.name,
        results=[result.type for result in op.results],
        operands=[*cuts, *sizes],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(new.results[0])
    erase(op)


def _without_duplicates(annotations: Sequence[ir.Operation]) -> int:
    """Fold an annotation into an equal one of the same value earlier in its block; drop shardings left unused."""
    first: dict[tuple[object, ...], ir.Operation] = {}
    duplicates: list[tuple[ir.Operation, ir.Operation]] = []
    values = [op.operands[0] for op in annotations]
    several = {value for value, count in Counter(values).items() if count > 1}
    for op in (op for op, value in zip(annotations, values, strict=True) if value in several):
        sharding = op.operands[1].owner
        if isinstance(sharding, ir.Block) or sharding.name not in _SHARDINGS:
            continue
        attributes = tuple(op.attributes.items())
        key = (op.block, op.operands[0], attributes, *_sharding_key(sharding))
        if first.setdefault(key, op) is not op:
            duplicates.append((op, first[key]))
    for op, earlier in duplicates:
        sharding = op.operands[1].owner
        op.results[0].replace_all_uses_with(earlier.results[0])
        erase(op)
        if next(iter(sharding.results[0].uses), None) is None:
            erase(sharding)
    return len(duplicates)


def _sharding_key(op: ir.Operation) -> tuple[object, ...]:
    """What two equal shardings have in common; empty lists of axes at the end do not matter."""
    lists = list(AXES.decode(str(op.attributes["split_axes"])))
    while lists and not lists[-1]:
        lists.pop()
    rest = tuple((name, value) for name, value in op.attributes.items() if name != "split_axes")
    return op.name, tuple(lists), rest, tuple(op.operands)
