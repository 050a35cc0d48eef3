"""How the results of an op lie that is computed on shards of its operands, where it can be, and needs to send nothing.

The same conditions as `partition.check` has: what comes of them is a program that it accepts.
"""

from __future__ import annotations

from shardwright.axes import overlaps_any
from shardwright.ir.ops import DEVICE_OPS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.factors import FactorAxes, feasible, merge, project, tensor_sharding
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.partition.options import Layouts, factors_of
from shardwright.partition.splits import Splits, linear_operands, splits_of
from shardwright.rules.traits import facts_of
from shardwright.sharding import Partial, TensorSharding

__all__ = ["Layouts", "is_local", "layouts_for", "operand_layouts", "results_of"]


@memoize
def is_local(signature: Signature) -> bool:
    """Whether an op might be computed on other shards than it is: one with a rule, without effects, on tensors."""
    facts = facts_of(signature.name)
    if facts.effects or facts.constant or signature.name in DEVICE_OPS or signature.name.startswith("sdy."):
        return False
    tensors = (*signature.operands, *signature.results)
    return bool(signature.operands) and all(type.is_tensor for type in tensors) and splits_of(signature) is not None


@memoize
def results_of(signature: Signature, operands: Layouts, before: Layouts) -> Layouts | None:
    """How the results of an op lie whose operands lie so; `None` where it cannot be computed on them as they are.

    Arguments:
        signature: An op that `is_local`.
        operands: The layouts of its operands.
        before: The layouts of its results as it is computed now: along factors that no operand has it stays split so.
    """
    splits = splits_of(signature)
    assert splits is not None, "the op is local"
    factors = factors_of(splits, operands, before)
    mesh = operands[0].mesh
    fits = all(
        layout.axes == tensor_sharding(mesh, mapping, factors).axes and layout.divides(type.dims)
        for layout, mapping, type in zip(operands, splits.rule.operands, signature.operands, strict=True)
    )
    if not fits or feasible(splits, factors) != factors:
        return None
    if any(axes and factor not in splits.allowed for factor, axes in enumerate(factors)):
        return None
    partial = _partial(signature, splits, factors, operands)
    if partial is None or exchanges_of(signature, operands):
        return None
    results = [tensor_sharding(mesh, mapping, factors) for mapping in splits.rule.results]
    made = tuple([layout.with_axes(layout.axes, partial).closed() for layout in results])
    divides = all(layout.divides(type.dims) for layout, type in zip(made, signature.results, strict=True))
    apart = any(overlaps_any(axis, layout.used_axes) for layout in made for axis in layout.partial_axes)
    return made if divides and not apart else None  # devices that have contributions to one element must all hold it


@memoize
def operand_layouts(
    signature: Signature, number: int, layout: TensorSharding, now: Layouts, before: Layouts
) -> Layouts:
    """How all operands have to lie so that one of them may lie as `layout`; what it does not split stays as it is now.

    Partial is that one alone: which others must be so too, `linear_operands` tells.
    """
    splits = splits_of(signature)
    assert splits is not None, "the op is local"
    rule, mesh = splits.rule, layout.mesh
    own = frozenset(factor for dim in rule.operands[number] for factor in dim)
    count = len(rule.sizes)
    proposals = [project(rule.operands[number], rule.sizes, layout.axes)]
    for mapping, held in zip((*rule.operands, *rule.results), (*now, *before), strict=True):
        kept = project(mapping, rule.sizes, held.axes)
        proposals.append(tuple([() if factor in own else axes for factor, axes in enumerate(kept)]))
    factors = merge(count, proposals, frozenset(range(count)))
    layouts = [tensor_sharding(mesh, mapping, factors) for mapping in rule.operands]
    return tuple([layout if place == number else one for place, one in enumerate(layouts)])


@memoize
def layouts_for(signature: Signature, result: TensorSharding, now: Layouts) -> Layouts:
    """How the operands of an op of one result have to lie so that it lies so; along what the result does not have, as
    they do now.
    """
    splits = splits_of(signature)
    assert splits is not None, "the op is local"
    rule, count = splits.rule, len(splits.rule.sizes)
    own = frozenset(factor for dim in rule.results[0] for factor in dim)
    proposals = [project(rule.results[0], rule.sizes, result.axes)]
    for mapping, held in zip(rule.operands, now, strict=True):
        kept = project(mapping, rule.sizes, held.axes)
        proposals.append(tuple([() if factor in own else axes for factor, axes in enumerate(kept)]))
    factors = merge(count, proposals, frozenset(range(count)))
    return tuple([tensor_sharding(result.mesh, mapping, factors) for mapping in rule.operands])


def _partial(
    signature: Signature, splits: Splits, factors: FactorAxes, operands: Layouts
) -> tuple[Partial, ...] | None:
    """Along which axes the results are partial; `None` where contributions may not pass through the op."""
    made = {Partial(axis, splits.kind) for factor in splits.contributing for axis in factors[factor]}
    partial = {number: frozenset(layout.partial) for number, layout in enumerate(operands) if layout.partial}
    held = {number: axes for number, axes in partial.items() if number not in splits.once}
    passed = frozenset().union(*held.values()) if held else frozenset()
    kinds = {partial.kind for partial in passed}
    if len(kinds) > 1 or (kinds and kinds != {"sum"} and made):
        return None
    if held and (len(set(held.values())) > 1 or not _is_linear(signature, tuple(held), *kinds)):
        return None
    if any(not axes <= made | passed for number, axes in partial.items() if number in splits.once):
        return None
    return tuple(made | passed)


def _is_linear(signature: Signature, partial: tuple[int, ...], kind: str) -> bool:
    return any(set(partial) == set(together) for together in linear_operands(signature, kind))
