"""How many iterations the loops of an op have, one in another: what its work is measured by.

Mostly these are the loops of its factors. An op that slides windows goes through one for every element of its result,
or of its source, and says so beside its rule. A call whose rule names factors that stand in one tensor alone goes
through that tensor, for all that is known, and not once more for every element of another:

    ([i, j, k], [i, l, m]) -> [i, n, o]     i · max(j · k, l · m, n · o)
"""

from __future__ import annotations

import math
from collections import Counter

from shardwright.ir.signature import Signature
from shardwright.rules.given import is_opaque
from shardwright.rules.registry import own_iterations
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["iterations_of"]


def iterations_of(signature: Signature, rule: ShardingRule) -> int:
    """The iterations of an op that is computed whole: by its meaning, or by a rule where nobody knows its meaning."""
    known = own_iterations(signature)
    if known is not None:
        return known
    return _through_tensors(rule) if is_opaque(signature) else math.prod(rule.sizes)


def _through_tensors(rule: ShardingRule) -> int:
    tensors = [factors_in(mapping) for mapping in (*rule.operands, *rule.results)]
    count = Counter(factor for factors in tensors for factor in factors)
    alone = [math.prod(rule.sizes[factor] for factor in factors if count[factor] == 1) for factors in tensors]
    return math.prod(size for factor, size in enumerate(rule.sizes) if count[factor] != 1) * max(alone, default=1)
