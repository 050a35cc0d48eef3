"""Which function writes the per-device form of which op.

    @localizer("stablehlo.iota")
    def iota(ctx, signature, operands, operand_shardings, result_shardings): ...

    @local_form("stablehlo.dot_general")
    def dot_general(signature, operand_shardings, result_shardings): ...

Of many ops the per-device form is one op on the same operands: of these a `local_form` says which. An op without a
function of its own is rebuilt with the types of its shards, which is right for all ops whose attributes say nothing
about sizes and which compute each shard from the shards of their operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.uneven import enters, leaves, local_entering
from shardwright.rules.rule import ShardingRule
from shardwright.rules.text import ATTRIBUTE
from shardwright.sharding import TensorSharding

__all__ = [
    "Localizer",
    "Shardings",
    "covered_factors",
    "form_of",
    "local_form",
    "local_signature",
    "localize_op",
    "localizer",
    "rebuild",
    "rule_in_parts",
]

Shardings: TypeAlias = tuple[TensorSharding, ...]
"""A sharding per operand or result; a value that is not a tensor has one of no dimensions."""

Localizer: TypeAlias = Callable[[Local, Signature, Sequence[int], Shardings, Shardings], tuple[int, ...]]
"""`(builder, global signature, local operands, operand shardings, result shardings) -> local results`."""

Covered: TypeAlias = Callable[[Signature, ShardingRule, frozenset[int]], frozenset[int]]
"""`(global signature, its rule, factors that it can be split along) -> those that its local form covers`."""

InParts: TypeAlias = Callable[[Signature, ShardingRule], ShardingRule]
"""`(global signature, its rule) -> the rule by which its local form computes parts`."""

LocalForm: TypeAlias = Callable[[Signature, Shardings, Shardings], Signature | None]
"""`(global signature, operand shardings, result shardings) -> local signature`; `None` leaves it to a localizer."""

_LOCALIZERS: dict[str, Localizer] = {}
_FORMS: dict[str, LocalForm] = {}
_COVERED: dict[str, Covered] = {}
_IN_PARTS: dict[str, InParts] = {}


def localizer(
    *names: str, covered: Covered | None = None, in_parts: InParts | None = None
) -> Callable[[Localizer], Localizer]:
    """Register a function as the localizer of the ops called `names`.

    Arguments:
        names: The ops.
        covered: Gives the factors along which it can write parts, where these are more or fewer than the op's own.
        in_parts: Gives the rule that parts follow, where dimensions are split together of which the op's own rule,
            which shardings propagate by, knows nothing in common. Its factors have the numbers of that.
    """

    def register(function: Localizer) -> Localizer:
        for name in names:
            _LOCALIZERS[name] = function
            if covered is not None:
                _COVERED[name] = covered
            if in_parts is not None:
                _IN_PARTS[name] = in_parts
        return function

    return register


def local_form(*names: str) -> Callable[[LocalForm], LocalForm]:
    """Register a function that gives the per-device form of the ops called `names`, one op on the same operands.

    Of ops that have a localizer as well it is asked first.
    """

    def register(function: LocalForm) -> LocalForm:
        _FORMS.update(dict.fromkeys(names, function))
        return function

    return register


def covered_factors(signature: Signature, rule: ShardingRule, splittable: frozenset[int]) -> frozenset[int]:
    """The factors along which there is a local form of an op, which by itself can be split along some of its rule."""
    covered = _COVERED.get(signature.name)
    return splittable if covered is None else covered(signature, rule, splittable)


def rule_in_parts(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """The rule by which an op is computed in parts: mostly its own."""
    in_parts = _IN_PARTS.get(signature.name)
    return rule if in_parts is None else in_parts(signature, rule)


@memoize
def local_signature(signature: Signature, operand_shardings: Shardings, result_shardings: Shardings) -> Signature:
    """The same op on the types of one device's shards."""
    return signature.replace(
        operands=tuple(map(local_type, signature.operands, operand_shardings)),
        results=tuple(map(local_type, signature.results, result_shardings)),
    )


def rebuild(
    ctx: Local,
    signature: Signature,
    operands: Sequence[int],
    operand_shardings: Shardings,
    result_shardings: Shardings,
) -> tuple[int, ...]:
    """The same op on local types, for a localizer that has looked at how its tensors lie."""
    return ctx.append(local_signature(signature, operand_shardings, result_shardings), operands)


def form_of(signature: Signature, operand_shardings: Shardings, result_shardings: Shardings) -> Signature | None:
    """The one op that an op without regions is on a device, on the same operands; `None` where it may be others.

    Raises:
        ShardingError: the op cannot be computed in these parts.
    """
    form = _FORMS.get(signature.name)
    if form is None:
        if signature.name in _LOCALIZERS:
            return None
        form = local_signature
    return form(_without_rule(signature), operand_shardings, result_shardings)


def _without_rule(signature: Signature) -> Signature:
    """An op without the rule that the program gives for it, which has the sizes of the whole."""
    return signature if signature.text(ATTRIBUTE) is None else signature.replace(**{ATTRIBUTE: None})


def localize_op(
    ctx: Local,
    signature: Signature,
    operands: Sequence[int],
    operand_shardings: Shardings,
    result_shardings: Shardings,
) -> tuple[int, ...]:
    """Write the per-device form of one op without regions, and give its local results.

    Arguments:
        ctx: Where to write.
        signature: The op at global types.
        operands: Local values, one per operand of the signature.
        operand_shardings: How each operand lies on the mesh.
        result_shardings: How each result shall lie; a split reduction has its axes here as partial.

    Raises:
        ShardingError: the op cannot be computed in these parts.
    """
    if enters(signature, operand_shardings, result_shardings):
        return (local_entering(ctx, signature, operands, operand_shardings[0]),)
    if leaves(signature, operand_shardings, result_shardings):
        return tuple(operands)
    form = form_of(signature, operand_shardings, result_shardings)
    if form is not None:
        return ctx.append(form, operands)
    write = _LOCALIZERS[signature.name]
    return write(ctx, _without_rule(signature), operands, operand_shardings, result_shardings)
