"""What kind of op it is, as propagation and constant splitting ask: tables of names.

Sources: MLIR's `Elementwise` trait and `chlo`'s broadcasting one; Shardy's op priorities and its constant or scalar
splitter.
"""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.rules.neighbours import CONSTANTS
from shardwright.rules.pointwise import CHLO_ELEMENTWISE, STABLEHLO_ELEMENTWISE

__all__ = [
    "is_constant",
    "is_constant_expression_op",
    "is_constant_preserving",
    "is_elementwise",
    "is_forward_pass_through",
    "is_pass_through",
    "is_scalar_expansion",
]

_WITHOUT_TRAIT = frozenset(f"chlo.{name}" for name in ("mulhi", "next_after", "polygamma", "zeta"))
"""Ops that work element by element, but do not carry the trait."""

_PURE_ELEMENTWISE = (
    frozenset(
        (
            *STABLEHLO_ELEMENTWISE,
            *CHLO_ELEMENTWISE,
            "sdy.propagation_barrier",
            "sdy.reshard",
            "stablehlo.uniform_dequantize",
            "stablehlo.uniform_quantize",
        )
    )
    - _WITHOUT_TRAIT
)

_REARRANGING = frozenset(("sdy.data_flow_edge", "stablehlo.reshape", "stablehlo.transpose"))
_MOVES = frozenset(("MoveToDevice", "MoveToHost"))
_FORWARD = frozenset(("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"))
_SELECTING = frozenset(("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.slice"))
_MADE_OF_NOTHING = CONSTANTS - {"chlo.constant", "arith.constant"} | {"stablehlo.iota"}


def is_elementwise(signature: Signature) -> bool:
    """Whether each element of the result is computed from the same element of the operands.

    Constraints, reshards and barriers count too: propagation treats them alike.
    """
    return signature.name == "sdy.sharding_constraint" or _is_pure_elementwise(signature)


def is_pass_through(signature: Signature) -> bool:
    """Whether shardings flow through in both directions before those of other ops: the first op priority."""
    if signature.name == "stablehlo.custom_call":
        return signature.get("call_target_name") in _MOVES
    return signature.name in _REARRANGING or is_elementwise(signature)


def is_forward_pass_through(signature: Signature) -> bool:
    """Whether shardings flow from operands to results at the first op priority, and back only later."""
    return signature.name in _FORWARD


def is_constant(signature: Signature) -> bool:
    """Whether the op gives a value known when the program is compiled, from no operands."""
    return signature.name in _MADE_OF_NOTHING


def is_constant_preserving(signature: Signature) -> bool:
    """Whether the op's result is a constant expression as soon as all its operands are."""
    return signature.name in _SELECTING or _is_pure_elementwise(signature)


def is_constant_expression_op(signature: Signature) -> bool:
    """Whether the op can be part of a constant expression: a constant, or one of constants."""
    return is_constant(signature) or is_constant_preserving(signature)


def is_scalar_expansion(signature: Signature) -> bool:
    """Whether the op broadcasts a scalar."""
    return signature.name == "stablehlo.broadcast_in_dim" and signature.operands[0].shape == ()


def _is_pure_elementwise(signature: Signature) -> bool:
    name = signature.name
    if name == "stablehlo.bitcast_convert":
        return signature.operands[0].shape == signature.results[0].shape
    return name in _PURE_ELEMENTWISE or name.startswith("chlo.broadcast_")
