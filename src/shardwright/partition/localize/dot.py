"""Products: batch and free dimensions split as they are, contracted ones leave a partial sum."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_axes, require_partial
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.registry import Shardings, local_form, local_signature

__all__: list[str] = []


@local_form("stablehlo.dot_general")
@memoize
def _dot_general(signature: Signature, source: Shardings, target: Shardings) -> Signature:
    _require_fitting(signature, source, target)
    return local_signature(signature, source, target)


def _require_fitting(signature: Signature, source: Shardings, target: Shardings) -> None:
    left, right = source[0].axes, source[1].axes
    numbers = signature.get("dot_dimension_numbers", {})
    batch = [tuple(numbers.get(f"{side}_batching_dimensions", ())) for side in ("lhs", "rhs")]
    contracted = [tuple(numbers.get(f"{side}_contracting_dimensions", ())) for side in ("lhs", "rhs")]
    for pairs in (batch, contracted):
        for one, other in zip(*pairs, strict=True):
            if wide(left[one]) != wide(right[other]):
                raise ShardingError(
                    f"a product needs dimension {one} of {source[0]!r} and {other} of {source[1]!r} split alike",
                    remedy="reshard one of them before the op",
                )
    free = [
        [axes for dim, axes in enumerate(side) if dim not in (*batch[which], *contracted[which])]
        for which, side in enumerate((left, right))
    ]
    require_axes("the result of a product", target[0], [*(left[dim] for dim in batch[0]), *free[0], *free[1]])
    require_partial("a product", tuple(axis for dim in contracted[0] for axis in left[dim]), "sum", target[0])
