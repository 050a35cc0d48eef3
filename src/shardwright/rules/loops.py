"""The loops of an op as the mesh RFC's ShardingInterface tells them: a type of each, and maps from them to indices.

    (B, L, F) = (B, L, E) @ (E, F)
    loop types: [parallel, parallel, parallel, reduction_sum]
    (d0, d1, d2, d3) -> (d0, d1, d3)
    (d0, d1, d2, d3) -> (d3, d2)
    (d0, d1, d2, d3) -> (d0, d1, d2)

Loops are the factors of the rule, those of result dimensions in order, then the others. `rules.self_described` leads
back: a rule without windows is that of an op that describes itself so, where each dimension of a result is one loop.

| loop type | factor |
| --- | --- |
| `parallel` | pass-through |
| `reduction_sum`, `reduction_max`, …; `reduction_generic` of a body that is no kind's | reduction |
| `window` | permutation: a shard needs rows of others |
| `invalid` | one that no part can be computed of |

Source: the mesh RFC on LLVM's forum, `getLoopIteratorTypes` and `getIndexingMaps`.
"""

from __future__ import annotations

from math import prod

from shardwright.ir.signature import Signature
from shardwright.rules.rule import DimFactors, ShardingRule

__all__ = ["indexing_maps", "iterator_types", "loops"]


def loops(rule: ShardingRule) -> list[int]:
    """The factors in the order of the op's loops."""
    parallel = [factor for tensor in rule.results for dim in tensor for factor in dim]
    return list(dict.fromkeys([*parallel, *range(len(rule.sizes))]))


def iterator_types(signature: Signature, rule: ShardingRule) -> tuple[str, ...]:
    """The type of each loop of an op."""
    kind = signature.bodies[-1].reduction or "generic" if signature.bodies else "sum"

    def type_of(factor: int) -> str:
        if factor in rule.need_replication:
            return "invalid"
        if factor in rule.permutation:
            return "window"
        return f"reduction_{kind}" if factor in rule.reduction else "parallel"

    return tuple(map(type_of, loops(rule)))


def indexing_maps(rule: ShardingRule) -> tuple[str, ...]:
    """For each operand, then for each result, where in it a step of the loops is, as the text of an affine map.

    Of a window loop the map tells where the shard is, not what it needs of others.
    """
    names = {factor: f"d{number}" for number, factor in enumerate(loops(rule))}

    def index(dim: DimFactors) -> str:
        strides = [prod([rule.sizes[factor] for factor in dim[place + 1 :]]) for place in range(len(dim))]
        terms = [
            names[factor] if stride == 1 else f"{names[factor]} * {stride}"
            for factor, stride in zip(dim, strides, strict=True)
        ]
        return " + ".join(terms) or "0"

    steps = ", ".join(names.values())
    return tuple([f"({steps}) -> ({', '.join(map(index, tensor))})" for tensor in (*rule.operands, *rule.results)])
