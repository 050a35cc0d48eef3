"""Which factors an op whose meaning is known can really be split along without talking to other devices.

Some rules let shardings pass through a dimension that the op cannot be computed in parts of on its own: the part of a
`dynamic_update_slice` that lies in one shard depends on where the update goes. Propagation wants those factors
connected; whoever splits the op must treat them apart.
"""

from __future__ import annotations

from collections.abc import Callable

from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.registry import known_rule
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["local_factors"]

Factors = frozenset[int]


@memoize
def local_factors(signature: Signature) -> Factors:
    """The factors of the op's known rule along which each shard of the results needs only that shard of the operands.

    Empty for an op without such a rule. `tests/rules/test_numbers.py` checks this by computing. Rules that a user or
    the program gives are not asked: see `given`.
    """
    rule = known_rule(signature)
    if rule is None:
        return frozenset()
    limit = _LIMITS.get(_key(signature))
    return rule.pass_through if limit is None else rule.pass_through & limit(signature, rule)


def _key(signature: Signature) -> str:
    target = signature.get("call_target_name") if signature.name == "stablehlo.custom_call" else None
    return f"{signature.name} {target}" if target else signature.name


def _in_update(signature: Signature, rule: ShardingRule) -> Factors:
    return factors_in(rule.operands[1])


def _in_updates(signature: Signature, rule: ShardingRule) -> Factors:
    return factors_in(rule.operands[-1])


def _uncut(signature: Signature, rule: ShardingRule) -> Factors:
    """Of a selection along a dimension that only `backend_config` tells, unless it is the one that becomes smaller."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    return factors_in(rule.results[0]) if source != target else frozenset()


def _unsorted(signature: Signature, rule: ShardingRule) -> Factors:
    """What is selected along the last dimension comes out in order, also where all of it is."""
    return factors_in(rule.operands[0][:-1])


def _in_batch(signature: Signature, rule: ShardingRule) -> Factors:
    return factors_in(rule.results[0][:-2])


def _in_both(signature: Signature, rule: ShardingRule) -> Factors:
    return factors_in(rule.operands[0]) & factors_in(rule.results[0])


def _nowhere(signature: Signature, rule: ShardingRule) -> Factors:
    return frozenset()


def _unpadded(signature: Signature, rule: ShardingRule) -> Factors:
    """A dimension padded here and cut there may keep its size and still shift."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    edges = zip(*(signature.get(name) for name in names), strict=True)
    return factors_in(tuple(dim for dim, pads in zip(rule.operands[0], edges, strict=True) if not any(pads)))


_MATRIX_CALLS = (
    "Cholesky",
    "CompactWyHelper",
    "Eigh",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
)

_MOVING_CALLS = tuple(
    f"_SPMDInternalOp_{name}" for name in ("MultiPad", "MultiRotate", "MultiSlice", "RotateRight", "Wrap")
)
"""Calls that shift along the dimension that their `backend_config` tells."""

_LIMITS: dict[str, Callable[[Signature, ShardingRule], Factors]] = {
    "stablehlo.custom_call mhlo.topk": _unsorted,
    "stablehlo.dynamic_update_slice": _in_update,
    "stablehlo.pad": _unpadded,
    "stablehlo.reshape": _in_both,
    "stablehlo.rng_bit_generator": _nowhere,
    "stablehlo.scatter": _in_updates,
    **{f"stablehlo.custom_call {target}": _in_batch for target in _MATRIX_CALLS},
    **{f"stablehlo.custom_call {target}": _uncut for target in ("ApproxTopK", "PartialReduce")},
    **{f"stablehlo.custom_call {target}": _nowhere for target in _MOVING_CALLS},
}
