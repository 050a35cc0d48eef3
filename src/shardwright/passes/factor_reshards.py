"""Reshards that make an op's tensors agree on how its factors are split, for the few ops that XLA does worse with.

- A *concatenation* whose operands are not sharded like its result gets one sharding for all.
- A *product* whose result is sharded, along one dimension, by the axes that its operands are summed over takes that
  dimension's split from the operand, and its result is resharded: less is multiplied, and less is moved.
- What an op sums over is reduced behind it, where its result says that it awaits another sum.

Source: the pass insert-explicit-reshards of OpenXLA's Shardy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.axes import Axes, AxisRef, overlaps_any, subtract_axes
from shardwright.ir.context import ir
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.passes.common_axes import common_axes, without_overlap
from shardwright.passes.edits import put_behind
from shardwright.passes.module_shardings import SHARDING, per_value, single
from shardwright.passes.reshards_at_uses import UseReshards, insert_all_reduce, insert_reshard
from shardwright.propagation.engine.projection import FactorSharding, project, unproject
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Seen", "reduce_factors", "reshard_alike", "reshard_product", "see"]


@dataclass(frozen=True, slots=True)
class Seen:
    """An op seen through its rule.

    Attributes:
        op: The op.
        rule: Its rule; every dimension is one factor.
        mesh: The mesh to reshard on.
        shardings: The sharding of each tensor, operands first.
        factors: How each tensor splits each of its factors.
    """

    op: Any
    rule: ShardingRule
    mesh: Mesh
    shardings: tuple[TensorSharding | None, ...]
    factors: tuple[dict[int, FactorSharding], ...]

    def resharded(self, tensor: int, axes: dict[int, Axes]) -> TensorSharding:
        """The sharding of a tensor whose factors are split by other axes, where `axes` says so."""
        mapping = (self.rule.operands + self.rule.results)[tensor]
        factors = {
            factor: split._replace(axes=axes.get(factor, split.axes)) for factor, split in self.factors[tensor].items()
        }
        sharding = self.shardings[tensor]
        if sharding is None:
            return unproject(mapping, factors, self.rule.sizes, self.mesh, (), ())
        used = [axis for split in factors.values() for axis in split.axes]
        replicated = subtract_axes(sharding.replicated, used)
        return unproject(mapping, factors, self.rule.sizes, self.mesh, replicated, sharding.partial)

    @property
    def awaited(self) -> list[AxisRef]:
        """The axes that a tensor awaits a sum along: none can be split by them."""
        return [axis for one in self.shardings if one is not None for axis in one.partial_axes]


def see(op: Any, rule: ShardingRule, reshards: UseReshards) -> Seen | None:
    """An op through its rule; `None` where its tensors lie on different meshes, or the rule is a user's.

    What kinds of reduction other than sums, offsets or halos imply stays implied too.
    """
    mappings = rule.operands + rule.results
    if rule.custom or any(len(factors) != 1 for mapping in mappings for factors in mapping):
        return None
    shardings = tuple([reshards.of(_before_barriers(value)) for value in (*op.operands, *op.results)])
    known = [sharding for sharding in shardings if sharding is not None]
    mesh = _mesh(known)
    if mesh is None or not all(map(_is_plain, known)):
        return None
    whole = [sharding or replicated(mesh, len(mapping)) for sharding, mapping in zip(shardings, mappings, strict=True)]
    factors = [
        project(mapping, sharding, rule.sizes).factors for mapping, sharding in zip(mappings, whole, strict=True)
    ]
    return Seen(op, rule, mesh, shardings, tuple(factors))


def _before_barriers(value: Any) -> Any:
    """What enters a barrier of propagation: what leaves it lies so for the C++, whatever is said of that."""
    while isinstance(value, ir.OpResult) and value.owner.name == "sdy.propagation_barrier":
        value = value.owner.operands[0]
    return value


def reshard_alike(seen: Seen, reshards: UseReshards) -> None:
    """Give all tensors of an op one way to be split: operands are resharded before it, results behind it."""
    elements = [TensorType.parse(str(value.type)).elements for value in (*seen.op.operands, *seen.op.results)]
    splits = [{factor: split.axes for factor, split in factors.items()} for factors in seen.factors]
    chosen = common_axes(seen.rule, splits, elements)
    axes = {factor: without_overlap(common, seen.awaited) for factor, common in enumerate(chosen)}
    changed = [
        _lies_elsewhere(sharding, seen.mesh) or any(split.get(factor) != axes[factor] for factor in split)
        for sharding, split in zip(seen.shardings, splits, strict=True)
    ]
    for number, value in enumerate(seen.op.operands):
        if changed[number]:
            target = seen.resharded(number, axes)
            seen.op.operands[number] = insert_reshard(value, target, ir.InsertionPoint(seen.op))
    if changed[-1]:
        _reshard_result(seen, seen.resharded(len(seen.shardings) - 1, axes), reshards)


def reshard_product(seen: Seen, reshards: UseReshards) -> None:
    """Let a product take the split of one of its dimensions from its operand, where that is the better."""
    factor = _conflict(seen)
    if factor is None:
        return
    left, right, _ = seen.factors
    axes = (left.get(factor) or right[factor]).axes
    if not any(overlaps_any(axis, seen.awaited) for axis in axes):
        _reshard_result(seen, seen.resharded(2, {factor: axes}), reshards)


def reduce_factors(seen: Seen, reshards: UseReshards) -> None:
    """Sum behind an op along what it sums over, except what its result awaits.

    Not where its operands disagree, or its result is split by such an axis: both take more than a sum.
    """
    count = len(seen.rule.operands)
    first = seen.shardings[count]
    summed: list[AxisRef] = []
    for factor in sorted(seen.rule.reduction):
        ways = {factors[factor].axes for factors in seen.factors[:count] if factor in factors}
        if len(ways) > 1:
            return
        summed += ways.pop() if ways else ()
    axes = subtract_axes(summed, () if first is None else first.partial_axes)
    split = () if first is None else (*first.used_axes, *first.replicated)
    if not axes or any(overlaps_any(axis, split) for axis in axes):
        return
    at = ir.InsertionPoint.after(seen.op)
    for value in list(seen.op.results):
        sharding = reshards.of(value) or replicated(seen.mesh, len(ir.ShapedType(value.type).shape))
        reduced = insert_all_reduce(value, seen.mesh.in_order(axes), sharding, at)
        value.replace_all_uses_except(reduced, [reduced.owner.operation])


def _reshard_result(seen: Seen, sharding: TensorSharding, reshards: UseReshards) -> None:
    """Give an op's only result another sharding, and its users the one that it had."""
    (value,) = seen.op.results
    before = seen.shardings[-1] or replicated(seen.mesh, sharding.rank)
    put_behind(value, "sdy.reshard", {"sharding": single(before)}, value.location)
    seen.op.attributes[SHARDING] = per_value([sharding])
    reshards.forget(value)


def _conflict(seen: Seen) -> int | None:
    """The one dimension of a product's result that is split by what its operands are summed over instead of as there.

    Nothing where the operands conflict with each other, or where the operand is not split, or is smaller.
    """
    left, right, result = seen.factors
    sizes = [TensorType.parse(str(value.type)).elements for value in (*seen.op.operands, *seen.op.results)]
    split_otherwise: list[int] = []
    summed: list[AxisRef] = []
    free: list[AxisRef] = []
    for factor in range(len(seen.rule.sizes)):
        having = [number for number, factors in enumerate((left, right)) if factor in factors]
        ways = {seen.factors[number][factor].axes for number in having}
        if len(ways) != 1:
            return None
        axes = ways.pop()
        if len(having) == 2 and factor in seen.rule.reduction:
            summed += axes
            continue
        if len(having) == 1:
            if any(overlaps_any(axis, free) for axis in axes):
                return None
            free += axes
        if result[factor].axes != axes:
            if not axes or sizes[2] > max(sizes[number] for number in having):
                return None
            split_otherwise.append(factor)
    if len(split_otherwise) != 1:
        return None
    axes_there = result[split_otherwise[0]].axes
    return split_otherwise[0] if axes_there and axes_there == tuple(summed) else None


def _mesh(shardings: Sequence[TensorSharding]) -> Mesh | None:
    """The mesh that most tensors that are split lie on; all must be alike but for the order of their devices."""
    meshes = [sharding.mesh for sharding in shardings if sharding.mesh.axes or sharding.mesh.device_ids]
    if not meshes or not meshes[0].axes or any(mesh.axes != meshes[0].axes for mesh in meshes):
        return None
    best = next((mesh for mesh in reversed(meshes) if mesh.device_ids is None), meshes[0])
    counts: Counter[Mesh] = Counter()
    most = 0
    for sharding in shardings:
        if any(sharding.axes):
            counts[sharding.mesh] += 1
            if counts[sharding.mesh] > most:
                best, most = sharding.mesh, counts[sharding.mesh]
    return best


def _is_plain(sharding: TensorSharding) -> bool:
    return not (sharding.offsets or sharding.halos or any(partial.kind != "sum" for partial in sharding.partial))


def _lies_elsewhere(sharding: TensorSharding | None, mesh: Mesh) -> bool:
    """Whether a tensor that is split lies on another order of devices."""
    return sharding is not None and any(sharding.axes) and sharding.mesh.device_ids != mesh.device_ids
