"""The axes of an op's factors: from the shardings of its tensors, and back to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from shardwright.axes import Axes, AxisRef, axes_size, can_coexist, merge_axes, truncate_by_divisor
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.splits import Splits
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.sharding import DimSharding, Partial, TensorSharding, interned

__all__ = [
    "FactorAxes",
    "can_split",
    "factor_axes",
    "feasible",
    "local_parts",
    "merge",
    "project",
    "tensor_sharding",
    "within_bounds",
]

FactorAxes = tuple[Axes, ...]
"""The axes that split each factor of a rule, major to minor."""


def factor_axes(rule: ShardingRule, shardings: Sequence[TensorSharding]) -> FactorAxes:
    """The axes of each factor, from the shardings of all operands and results of an op in order."""
    proposals = [
        project(mapping, rule.sizes, sharding.axes)
        for mapping, sharding in zip((*rule.operands, *rule.results), shardings, strict=True)
    ]
    return merge(len(rule.sizes), proposals, frozenset(range(len(rule.sizes))))


@memoize
def project(mapping: TensorMapping, sizes: tuple[int, ...], axes: tuple[Axes, ...]) -> FactorAxes:
    """The axes that a tensor's sharding gives each factor: those of a dimension dealt over its factors."""
    by_factor: list[Axes] = [()] * len(sizes)
    for factors, dim_axes in zip(mapping, axes, strict=True):
        if len(dim_axes) == len(factors) == 1 and sizes[factors[0]] % dim_axes[0].size == 0 and dim_axes[0].size > 1:
            by_factor[factors[0]] = dim_axes  # nearly always
            continue
        queue = list(dim_axes)
        for factor in factors:
            taken, full = _deal(queue, sizes[factor])
            if taken:
                by_factor[factor] = taken
            if not full:
                break
    return tuple(by_factor)


def _deal(queue: list[AxisRef], size: int) -> tuple[Axes, bool]:
    """Take axes off `queue` while they divide `size`; also whether they cover it."""
    taken: list[AxisRef] = []
    while queue and size > 1:
        axis = queue[0]
        shared = math.gcd(axis.size, size)
        if shared == 1:
            return tuple(taken), False
        taken.append(AxisRef(axis.name, axis.pre, shared))
        size //= shared
        if shared == axis.size:
            queue.pop(0)
        else:
            queue[0] = AxisRef(axis.name, axis.pre * shared, axis.size // shared)
    return tuple(taken), size == 1


def merge(count: int, proposals: Iterable[FactorAxes], allowed: frozenset[int], *, behind: bool = False) -> FactorAxes:
    """Give each factor the axes proposed first; later proposals may extend them by axes nobody uses.

    With `behind` axes of a later proposal that does not begin with those given go behind these: `{x}` and `{y}` make
    `{x, y}`, which any device that holds a part of either has a part of, or is sent one.
    """
    proposals = list(proposals)
    if len(proposals) == 1:
        return tuple([axes if factor in allowed else () for factor, axes in enumerate(proposals[0])])
    merged: list[Axes] = [()] * count
    used: dict[str, list[AxisRef]] = {}
    for proposal in proposals:
        for factor, axes in enumerate(proposal):
            if not axes or factor not in allowed:
                continue
            held = merged[factor]
            begins = axes[: len(held)] == held
            if not begins and not behind:
                continue
            for axis in axes[len(held) :] if begins else axes:
                others = used.setdefault(axis.name, [])
                if others and not can_split(axis, others):
                    break
                merged[factor] += (axis,)
                others.append(axis)
    return tuple(merged)


def can_split(axis: AxisRef, used: Iterable[AxisRef]) -> bool:
    """Whether `axis` can be used beside others."""
    return all(not axis.overlaps(other) and can_coexist(axis, other) for other in used)


def feasible(splits: Splits, factors: FactorAxes) -> FactorAxes:
    """Drop axes that some tensor could not hold: those of a minor factor below a major one that is not full, and those
    that do not divide what the factor can be cut into.

    What is dropped for one tensor may leave a factor of another not full, so this goes on until nothing changes.
    """
    rule = splits.rule
    if not splits.bounds and not rule.joined:
        return factors
    kept = list(within_bounds(splits, factors))
    for dim in rule.joined:
        full = True
        for factor in dim:
            if not full:
                kept[factor] = ()
            full = full and axes_size(kept[factor]) == rule.sizes[factor]
    less = tuple(kept)
    return less if less == factors else feasible(splits, less)


def within_bounds(splits: Splits, factors: FactorAxes) -> FactorAxes:
    """The major part of the axes of each factor into which it can be cut."""
    if not splits.bounds:
        return factors
    pairs = zip(factors, splits.bounds, strict=True)
    return tuple(axes if bound % axes_size(axes) == 0 else truncate_by_divisor(axes, bound) for axes, bound in pairs)


def local_parts(splits: Splits, mapping: TensorMapping, sharding: TensorSharding) -> tuple[int, ...]:
    """Into how many of the parts of each dimension of a tensor its op can be split with no exchange inside."""
    local = splits.allowed - splits.exchanged
    possible = within_bounds(splits, project(mapping, splits.rule.sizes, sharding.axes))
    parts = [axes_size(axes) if factor in local else 1 for factor, axes in enumerate(possible)]
    return tuple([math.prod([parts[factor] for factor in dim]) for dim in mapping])


@memoize
def tensor_sharding(
    mesh: Mesh, mapping: TensorMapping, factors: FactorAxes, partial: tuple[Partial, ...] = ()
) -> TensorSharding:
    """The sharding of a tensor whose factors have these axes."""
    axes = [merge_axes(tuple([axis for factor in dim for axis in factors[factor]])) for dim in mapping]
    return interned(TensorSharding(mesh, tuple(map(DimSharding, axes)), partial=partial))
