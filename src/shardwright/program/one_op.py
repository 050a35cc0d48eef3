"""The loops of a single op that is written as text."""

from __future__ import annotations

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.frontends.one_op import signature_of
from shardwright.propagation.rfc.interface import Interface, interface_of

__all__ = ["interface"]


def interface(op: str) -> Interface:
    """The loops of an op: of which type each is, and where in each tensor its steps are; and how these are split.

    Arguments:
        op: The op as MLIR text, its operands by any names, with their types at the end.

    Raises:
        ShardingError: no text of one op, or an op that has no rule.

    Example:
        >>> print(
        ...     interface(
        ...         "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] "
        ...         ": (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"
        ...     )
        ... )
        stablehlo.dot_general
        loop types: [parallel, parallel, reduction_sum]
        indexing maps:
        (d0, d1, d2) -> (d0, d2)
        (d0, d1, d2) -> (d2, d1)
        (d0, d1, d2) -> (d0, d1)
    """
    return interface_of(signature_of(op))
