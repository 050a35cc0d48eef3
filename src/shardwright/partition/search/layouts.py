"""The layouts that a value may have on a mesh, whoever makes and reads it."""

from __future__ import annotations

from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.factors import tensor_sharding
from shardwright.partition.joined_axes import Groups
from shardwright.partition.search.listed import listed_splits
from shardwright.partition.splits import Splits
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["layouts_of"]


@memoize
def layouts_of(type: TensorType, lying: TensorSharding, groups: Groups = ()) -> tuple[TensorSharding, ...]:
    """What the mesh allows, the layout `lying` first, those of fewest axes then; of a great many not all."""
    mapping = tuple([(dim,) for dim in range(type.rank)])
    rule = ShardingRule(type.dims, (mapping,), (mapping,))
    splits = Splits(rule, frozenset(range(type.rank)), "sum", (), 0)
    proposed = listed_splits(splits, ((lying,),), (lying,), groups)
    layouts = [tensor_sharding(lying.mesh, mapping, factors) for factors in proposed]
    return tuple(dict.fromkeys([lying, *layouts]))
