"""Ops that take a part, put a part in, extend or turn round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.builder import NEED_REPLICATION, PASS_THROUGH, PERMUTATION, FactorKind, RuleBuilder
from shardwright.rules.facts import ALL, MOVES, Flow, OpFacts, facts_of
from shardwright.rules.registry import Definition, result_alone, sharding_rule
from shardwright.rules.rule import ShardingRule, factors_in

if TYPE_CHECKING:  # graphs load MLIR
    from shardwright.ir.graph import Op

__all__: list[str] = []


def _kind_of(dims: tuple[int, ...], kind: FactorKind) -> Callable[[int], FactorKind]:
    return lambda dim: kind if dim in dims else PASS_THROUGH


def _changed(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dim for dim, sizes in enumerate(zip(before, after, strict=True)) if sizes[0] != sizes[1])


def _unpadded(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """A dimension padded here and cut there may keep its size and still shift."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    edges = zip(*(signature.get(name) for name in names), strict=True)
    return factors_in(tuple(dim for dim, pads in zip(rule.operands[0], edges, strict=True) if not any(pads)))


@sharding_rule("stablehlo.pad", facts=OpFacts(windowed=True, exact=True, index_by_index=True), local=_unpadded)
@sharding_rule(
    "stablehlo.slice",
    facts=MOVES | OpFacts(windowed=True, preserves_constants=True, index_by_index=True),
    through=result_alone,
)
def _shifted(signature: Signature) -> ShardingRule:
    """Where the size changes, data moves between neighbouring shards."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    return RuleBuilder(signature).pointwise(source, _kind_of(_changed(source, target), PERMUTATION)).build()


@sharding_rule("stablehlo.reverse", facts=MOVES | OpFacts(index_by_index=True))
def _reverse(signature: Signature) -> ShardingRule:
    reversed_dims = signature.get("dimensions", ())
    shape = signature.results[0].dims
    return RuleBuilder(signature).pointwise(shape, _kind_of(reversed_dims, PERMUTATION)).build()


@sharding_rule("shardwright.roll", beyond_shardy=True, facts=MOVES | OpFacts(index_by_index=True))
def _roll(signature: Signature) -> ShardingRule:
    """An op of ours, which the partitioner makes of slices: see `partition.rolls`."""
    shape = signature.results[0].dims
    return RuleBuilder(signature).pointwise(shape, _kind_of((signature.get("dimension"),), PERMUTATION)).build()


def _rotating(op: Op, rule: ShardingRule, definition: Definition) -> ShardingRule:
    """Slices joined (a rotation, a halo) move data between neighbours; anything else is gathered."""
    return _permuting(rule) if _is_rotation(op, definition) else rule


def _is_rotation(op: Op, definition: Definition) -> bool:
    """Whether all operands are slices, or all of them one value and slices of it."""
    wholes: set[int] = set()
    sliced: set[int] = set()
    for value in op.operands:
        made = definition(value)
        if made is not None and made.signature.name == "stablehlo.slice":
            sliced.add(made.operands[0])
        else:
            wholes.add(value)
    return bool(sliced) and (not wholes or (len(wholes) == 1 and sliced == wholes))


@memoize
def _permuting(rule: ShardingRule) -> ShardingRule:
    return replace(rule, need_replication=frozenset(), permutation=rule.need_replication)


@sharding_rule(
    "stablehlo.concatenate",
    facts=OpFacts(linear=(ALL,), exact=True, joins=True, index_by_index=True),
    apart=lambda signature, rule: frozenset(rule.results[0][signature.get("dimension")]),
    refined=_rotating,
)
def _concatenate(signature: Signature) -> ShardingRule:
    """The factor of the concatenated dimension has the size of the result's."""
    joined = (signature.get("dimension"),)
    shape = signature.results[0].dims
    return RuleBuilder(signature).pointwise(shape, _kind_of(joined, NEED_REPLICATION)).build()


@sharding_rule(
    "stablehlo.dynamic_slice",
    facts=MOVES | OpFacts(index_by_index=True, flow=Flow.DYNAMIC_SLICE),
    through=result_alone,
)
def _dynamic_slice(signature: Signature) -> ShardingRule:
    """Where a part is taken at a place known only when the program runs, the dimension must be whole."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    changed = _changed(source, target)
    builder = RuleBuilder(signature)
    for dim, size in enumerate(source):
        cut = dim in changed
        builder.across(dim, size, NEED_REPLICATION if cut else PASS_THROUGH, blocked=cut)
    return builder.build()


def _at_constants(op: Op, rule: ShardingRule, definition: Definition) -> ShardingRule:
    """An update at constant indices need not be whole."""
    made = (definition(value) for value in op.operands[2:])
    return _free(rule) if all(index is not None and facts_of(index.name).literal for index in made) else rule


@memoize
def _free(rule: ShardingRule) -> ShardingRule:
    return replace(rule, need_replication=frozenset())


@sharding_rule(
    "stablehlo.dynamic_update_slice",
    facts=OpFacts(exact=True, in_place=True, flow=Flow.DYNAMIC_SLICE),
    local=lambda signature, rule: factors_in(rule.operands[1]),
    refined=_at_constants,
    through=lambda signature: 1,
)
def _dynamic_update_slice(signature: Signature) -> ShardingRule:
    """Where the update is smaller than the operand, it is whole; operand and result may be split alike."""
    operand, update = signature.operands[0].dims, signature.operands[1].dims
    indices = [None] * (len(signature.operands) - 2)
    builder = RuleBuilder(signature)
    for dim, (size, part) in enumerate(zip(operand, update, strict=True)):
        if size == part:
            builder.across(dim, size)
        else:
            builder.factor(size, [dim, None, *indices], [dim])
            builder.factor(part, [None, dim, *indices], [None], NEED_REPLICATION)
    return builder.build()
