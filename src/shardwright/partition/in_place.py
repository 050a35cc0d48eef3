"""Ops of which nothing has to move: their tensors lie as one way to split them has it.

Most ops of a propagated program are so, and no price is needed to tell that nothing is cheaper. Of pointwise ops, which
most of them are, not even a rule is: what they compute, and of which sizes, makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import Axes, axes_size, merge_axes
from shardwright.cost.hardware import Hardware
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.decisions import Layout
from shardwright.partition.edges import NOTHING
from shardwright.partition.factors import FactorAxes, feasible, project, tensor_sharding
from shardwright.partition.proposals import Shardings, Source, mesh_of
from shardwright.partition.splits import Splits
from shardwright.partition.ways import Choice
from shardwright.rules.pointwise import POINTWISE
from shardwright.rules.registry import is_given
from shardwright.rules.rule import TensorMapping
from shardwright.sharding import TensorSharding, replicated

__all__ = ["choice_in_place", "pointwise_in_place"]


def pointwise_in_place(
    signature: Signature, sources: tuple[Source, ...], targets: tuple[Layout, ...], passing: frozenset[int]
) -> Shardings | None:
    """How the operands of a pointwise op lie where it has a choice in place, which leaves all tensors as they are.

    That is where they lie as the result does, which splits evenly; also in other versions as long as these are split
    alike, and no sum may pass. `None` of all other ops. The arguments are those of `assign`.
    """
    target, *others = targets or (None,)
    if target is None or others or signature.name not in POINTWISE or is_given(signature):
        return None
    read: list[TensorSharding] = []
    for type, source in zip(signature.operands, sources, strict=True):
        lying = target if type.rank else replicated(target.mesh, 0)
        if len(source) > 1 and (passing or any(version.axes != lying.axes for version in source)):
            return None
        there = next((version for version in source if version == lying), None) if source else lying
        if there is None:
            return None
        read.append(there)
    return tuple(read) if _is_even(signature.results[0].dims, target) else None


@memoize
def _is_even(shape: tuple[int, ...], sharding: TensorSharding) -> bool:
    """Whether a sharding of a tensor of a shape tells the axes of factors that are its dimensions, each axis once."""
    lying = _axes_of(tuple([(dim,) for dim in range(len(shape))]), shape, sharding)
    names = [axis.name for _, axes in lying or () for axis in axes]
    return lying is not None and len(set(names)) == len(names)


def choice_in_place(
    splits: Splits, sources: tuple[Source, ...], targets: Shardings, hardware: Hardware
) -> Choice | None:
    """The choice for an op whose tensors all lie in one way in which it can be split, with no sum and no exchange.

    Nothing can be cheaper: nothing moves, and all axes that the tensors have split the work.
    """
    mesh = mesh_of(sources, targets)
    shardings: list[TensorSharding | None] = []
    for source in sources:
        if len(source) > 1:
            return None
        shardings.append(source[0] if source else None)
    shardings += targets
    for sharding in shardings:
        if sharding is not None and sharding.mesh is not mesh and sharding.mesh != mesh:
            return None
    factors = _common_factors(splits, shardings)
    if factors is None or feasible(splits, factors) != factors:
        return None
    pairs = zip(splits.rule.operands, shardings, strict=False)
    operands = tuple([tensor_sharding(mesh, mapping, factors) if lies is None else lies for mapping, lies in pairs])
    reads = tuple([(NOTHING,) if source else () for source in sources])
    own = splits.work(list(map(axes_size, factors)), hardware)
    return Choice(operands, targets, splits.kind, own, NOTHING, reads, (NOTHING,) * len(targets))


def _common_factors(splits: Splits, shardings: Sequence[TensorSharding | None]) -> FactorAxes | None:
    """The axes of each factor, where all tensors have the same for it and the op is local when split so."""
    rule = splits.rule
    factors: dict[int, Axes] = {}
    for mapping, sharding in zip((*rule.operands, *rule.results), shardings, strict=True):
        lying = () if sharding is None else _axes_of(mapping, rule.sizes, sharding)
        if lying is None:
            return None
        for factor, axes in lying:
            if factors.setdefault(factor, axes) != axes:
                return None
    split = [factor for factor, axes in factors.items() if axes]
    names = [axis.name for factor in split for axis in factors[factor]]
    if len(set(names)) < len(names) or not splits.allowed.issuperset(split):
        return None
    if not splits.exchanged.isdisjoint(split) or not splits.rule.reduction.isdisjoint(split):
        return None
    return tuple([factors.get(factor, ()) for factor in range(len(rule.sizes))])


@memoize
def _axes_of(
    mapping: TensorMapping, sizes: tuple[int, ...], sharding: TensorSharding
) -> tuple[tuple[int, Axes], ...] | None:
    """The axes that a tensor has for each of its factors, none too; `None` where these do not tell how it lies."""
    if sharding.partial or not sharding.is_closed:
        return None
    if not sharding.used_axes:
        return tuple([(factor, ()) for dim in mapping for factor in dim])
    factors = project(mapping, sizes, sharding.axes)
    for dim, axes in zip(mapping, sharding.axes, strict=True):
        if axes and merge_axes(tuple([axis for factor in dim for axis in factors[factor]])) != axes:
            return None
    return tuple([(factor, factors[factor]) for dim in mapping for factor in dim])
