"""Pads of one number repeated by the same number, taken for that number repeated.

    %1 = broadcast_in_dim %c          of 64 by 64
    %2 = pad %1, %c                   of 66 by 66     is     %2 = broadcast_in_dim %c    of 66 by 66

So a stencil begins that is applied to zeros, as solvers do at first. Compilers leave it, and where its rows are shifted
then, each device makes all of a dimension that is split, to take its part: a V of a multigrid held twice as much.

The two are the same where they are one value, or both are zero: frontends convert a zero to what they pad.
"""

from __future__ import annotations

from operator import attrgetter

from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.local import splat_value

__all__ = ["padded_fills"]

_name = attrgetter("signature.name")
_PAD, _FILL, _CONSTANT, _CONVERT = (f"stablehlo.{name}" for name in ("pad", "broadcast_in_dim", "constant", "convert"))


def padded_fills(graph: Graph) -> dict[Op, Op]:
    """By the pads of a propagated graph that are one number repeated, what is computed in their places."""
    ops = graph.main.block.walk(opaque=(MANUAL,))
    if _PAD not in set(map(_name, ops)):
        return {}
    zeros, fills, found = set[int](), dict[int, Op](), dict[Op, Op]()
    for op in ops:
        name = op.signature.name
        if (name == _CONSTANT and _is_zero(op.signature)) or (name == _CONVERT and op.operands[0] in zeros):
            zeros.add(op.results[0])
        elif name == _FILL and not op.signature.operands[0].rank:
            fills[op.results[0]] = op
        elif name == _PAD and (fill := fills.get(op.operands[0])) is not None:
            number, with_number = fill.operands[0], op.operands[1]
            if number == with_number or {number, with_number} <= zeros:
                signature = fill.signature.replace(results=op.signature.results)
                found[op] = fills[op.results[0]] = Op(signature, fill.operands, op.results, (), op.location)
    return found


@memoize
def _is_zero(constant: Signature) -> bool:
    """Whether a constant is a zero, and no negative one."""
    return not constant.results[0].rank and splat_value(constant.text("value") or "") in ("0", "0.0", "0.000000e+00")
