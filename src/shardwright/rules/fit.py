"""Whether a rule fits an op: what the dialect's verifier asks of a rule that stands in a program.

Source: `OpShardingRuleAttr` of the `sdy` dialect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.rules.rule import ShardingRule, TensorMapping

__all__ = ["check_fit", "unfit"]


def check_fit(rule: ShardingRule, signature: Signature) -> None:
    """Refuse a rule of another op than this one.

    Raises:
        ShardingError: the rule maps other operands, results or ranks, or is none by itself: factors without a size,
            without a dimension, twice in a tensor, of two kinds, or summed although a result has them.
    """
    ranks = [[len(mapping) for mapping in side] for side in (rule.operands, rule.results)]
    expected = [[type.rank for type in side] for side in (signature.operands, signature.results)]
    if ranks != expected:
        raise unfit(signature, f"ranks of operands and results: rule {ranks}, op {expected}", "map every dimension")
    tensors = (*rule.operands, *rule.results)
    for cause, remedy in (*_wrong_factors(rule, tensors), *_wrong_mappings(tensors)):
        raise unfit(signature, cause, remedy)


def unfit(signature: Signature, cause: str, remedy: str) -> ShardingError:
    """The error about a rule that a user gave for an op."""
    return ShardingError("the rule given does not fit the op", op=signature.label, cause=cause, remedy=remedy)


def _wrong_factors(rule: ShardingRule, tensors: tuple[TensorMapping, ...]) -> Iterator[tuple[str, str]]:
    sized = set(range(len(rule.sizes)))
    mapped = {factor for tensor in tensors for dim in tensor for factor in dim}
    if (mapped | rule.special | rule.blocked | rule.local) - sized:
        named = sorted(mapped | rule.special | rule.blocked | rule.local)
        yield f"factors {named}, sizes {rule.sizes}", "give every factor its size"
    if sized - mapped:
        yield f"factors {sorted(sized - mapped)} are in no dimension", "give sizes of factors that are mapped only"
    kinds = Counter((*rule.reduction, *rule.need_replication, *rule.permutation))
    several = sorted(factor for factor, count in kinds.items() if count > 1)
    if several:
        yield f"factors {several} are of more than one kind", "say one kind for each factor"
    if rule.local & (rule.need_replication | rule.permutation):
        both = sorted(rule.local & (rule.need_replication | rule.permutation))
        yield f"factors {both} are local and not", "what is local needs neither all of a factor nor neighbours"
    returned = {factor for tensor in rule.results for dim in tensor for factor in dim}
    if rule.reduction & returned:
        summed = sorted(rule.reduction & returned)
        yield f"factors {summed} are summed, and a result has them", "sum over factors that only operands have"


def _wrong_mappings(tensors: tuple[TensorMapping, ...]) -> Iterator[tuple[str, str]]:
    for tensor in tensors:
        if not all(tensor):
            yield f"a dimension of {tensor} has no factor", "give it one of size 1 if nothing corresponds to it"
        counts = Counter(factor for dim in tensor for factor in dim)
        twice = sorted(factor for factor, count in counts.items() if count > 1)
        if twice:
            yield f"factors {twice} stand twice in {tensor}", "let a factor stand once in a tensor"
