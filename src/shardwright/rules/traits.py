"""What kind of op it is, as the engines ask: facts that the families declare, and what types add to them.

Sources: MLIR's `Elementwise` trait and `chlo`'s broadcasting one; Shardy's op priorities and its constant or scalar
splitter.
"""

from __future__ import annotations

import shardwright.rules.families  # noqa: F401 (declares the facts)
from shardwright.ir.signature import Signature
from shardwright.rules.facts import facts_of

__all__ = ["adds_unit_dims", "facts_of", "is_constant_preserving", "is_elementwise", "is_scalar_expansion"]


def is_elementwise(signature: Signature) -> bool:
    """Whether each element of the result is computed from the same element of the operands.

    Constraints, reshards and barriers count too: propagation treats them alike.
    """
    name = signature.name
    if name == "stablehlo.bitcast_convert":
        return signature.operands[0].shape == signature.results[0].shape
    return facts_of(name).elementwise or name.startswith("chlo.broadcast_")


def is_constant_preserving(signature: Signature) -> bool:
    """Whether the op's result is a constant expression as soon as all its operands are."""
    facts = facts_of(signature.name)
    return facts.preserves_constants or (is_elementwise(signature) and not facts.effects)


def is_scalar_expansion(signature: Signature) -> bool:
    """Whether the op broadcasts a scalar."""
    return signature.name == "stablehlo.broadcast_in_dim" and signature.operands[0].shape == ()


def adds_unit_dims(signature: Signature) -> bool:
    """Whether the op broadcasts a tensor to one of as many elements, in the same order."""
    if signature.name != "stablehlo.broadcast_in_dim":
        return False
    dims = list(signature.get("broadcast_dimensions", ()))
    return signature.operands[0].elements == signature.results[0].elements and dims == sorted(dims)
