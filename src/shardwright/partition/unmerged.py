"""Sums over dimensions that a reshape has put together, taken for sums over those dimensions themselves.

    %1 = reshape %x             of 8 by 64 by 32 to 16384     is     %2 = dot_general %x, %x    over all three
    %2 = dot_general %1, %1

The norm of all gradients is a sum of such products, where it is written as `jnp.vdot(g, g)`. Of a dimension put
together of others only the first of these can be split as it was: any other axes have to be gathered in front of the
reshape, of every gradient, for one number. What is multiplied and added up is the same without.

So it is with reductions. All operands must have been put together alike, and dimensions that stay must be as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TypeAlias

from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize

__all__ = ["dims_merged", "unmerged"]

_PRODUCT, _REDUCTION, _RESHAPE = "stablehlo.dot_general", "stablehlo.reduce", "stablehlo.reshape"
_NUMBERS, _DIMS = "dot_dimension_numbers", "dimensions"
_BATCH, _CONTRACTED = "batching_dimensions", "contracting_dimensions"
_name = attrgetter("signature.name")

Merged: TypeAlias = tuple[tuple[int, ...], ...]
"""For each dimension of a tensor those of another one that it is put together of."""


def unmerged(graph: Graph) -> dict[Op, Op]:
    """By the sums of a propagated graph over dimensions that were put together, what is computed in their places."""
    found: dict[Op, Op] = {}
    for block in graph.main.block.blocks(opaque=(MANUAL,)):
        names = list(map(_name, block.ops))
        made = {op.results[0]: op for op, name in zip(block.ops, names, strict=True) if name == _RESHAPE}
        for op, name in zip(block.ops, names, strict=True) if made else ():
            if name in (_PRODUCT, _REDUCTION) and not made.keys().isdisjoint(op.operands):
                read = tuple([made[value].operands[0] if value in made else value for value in op.operands])
                signature = _over(op.signature, tuple(map(graph.types.__getitem__, read)))
                if signature is not None:
                    found[op] = Op(signature, read, op.results, op.regions, op.location)
    return found


@memoize
def _over(summing: Signature, read: tuple[TensorType, ...]) -> Signature | None:
    """The same sum of operands as they were in front of reshapes, if it is over all dimensions put together there."""
    merged = [dims_merged(before.dims, after.dims) for before, after in zip(read, summing.operands, strict=True)]
    known = [one for one in merged if one is not None]
    if len(known) < len(merged) or all(len(dims) == 1 for one in known for dims in one):
        return None
    return (_product if summing.name == _PRODUCT else _reduction)(summing, read, known)


def _product(product: Signature, read: tuple[TensorType, ...], merged: Sequence[Merged]) -> Signature | None:
    numbers: Mapping[str, Sequence[int]] = product.get(_NUMBERS, {})
    sizes, named = [], list[str]()
    for kind in (_BATCH, _CONTRACTED):
        for side, type, dims in zip(("lhs", "rhs"), read, merged, strict=True):
            over = [dim for one in numbers.get(f"{side}_{kind}", ()) for dim in dims[one]]
            if over:
                named.append(f"{side}_{kind} = [{', '.join(map(str, over))}]")
            if kind == _CONTRACTED:
                sizes.append([type.dims[dim] for dim in over])
                if not _stay(dims, numbers.get(f"{side}_{kind}", ())):
                    return None
    left, right = sizes
    text = f"#stablehlo.dot<{', '.join(named)}>"
    return product.replace(operands=read, dot_dimension_numbers=text) if left == right else None


def _reduction(reduction: Signature, read: tuple[TensorType, ...], merged: Sequence[Merged]) -> Signature | None:
    over: Sequence[int] = reduction.get(_DIMS, ())
    dims = merged[0]
    if len(read) != 2 or not _stay(dims, over):  # a tensor, and what its sum begins with
        return None
    text = ", ".join([str(dim) for one in over for dim in dims[one]])
    return reduction.replace(operands=read, dimensions=f"array<i64: {text}>")


def _stay(merged: Merged, over: Sequence[int]) -> bool:
    """Whether all dimensions that are not summed over are as they were."""
    return all(len(dims) == 1 for number, dims in enumerate(merged) if number not in over)


def dims_merged(before: Sequence[int], after: Sequence[int]) -> Merged | None:
    """Of which dimensions those behind a reshape are put together; `None` where it takes any apart.

    >>> dims_merged((8, 4, 2), (32, 2)), dims_merged((8, 4), (4, 8)), dims_merged((8, 1), (8,))
    (((0, 1), (2,)), None, ((0, 1),))
    """
    if 0 in before:
        return None
    found, begin = list[tuple[int, ...]](), 0
    for number, size in enumerate(after):
        end = begin + 1
        while end < len(before) and (math.prod(before[begin:end]) < size or number + 1 == len(after)):
            end += 1
        if math.prod(before[begin:end]) != size or begin >= len(before):
            return None
        found.append(tuple(range(begin, end)))
        begin = end
    return tuple(found) if begin == len(before) else None
