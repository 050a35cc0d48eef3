"""What an op takes whose tensors lie as they do, told while shardings are still being found.

    seconds = work of one device + what brings every operand to where the split needs it, and every result on from there

for the split of its loops that takes least. Tensors whose sharding is not decided follow whatever split there is, and
so do open dimensions that might yet be split so. The price is the one by which ops are split afterwards
(`cost.price`), of multiply-adds as fast as those of bf16; what devices exchange inside an op is left out, and what it
moves through memory. Dimensions that do not divide are padded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import price, work_cost
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import prefix_status, without_overlap
from shardwright.propagation.engine.projection import FactorSharding, TensorProjection, project, unproject
from shardwright.propagation.engine.step import Shardings, common_mesh
from shardwright.reshard.plan import plan
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["op_seconds"]

_Split = tuple[Axes, ...]
"""The axes of every factor."""


@memoize
def op_seconds(
    rule: ShardingRule,
    whole: frozenset[int],
    iterations: int,
    types: tuple[TensorType, ...],
    shardings: Shardings,
    times: tuple[float, ...],
    hardware: Hardware,
) -> float:
    """The seconds that an op takes on each device while the program runs.

    Arguments:
        rule: Its rule.
        whole: The factors that it cannot be split along.
        iterations: Of its loops, where it is computed whole.
        types: Of its operands, then of its results; `shardings` are theirs.
        shardings: How they lie; `None` where that is not decided.
        times: How often each operand is brought to it, and each result made.
        hardware: Where.
    """
    mesh = common_mesh(shardings)
    if mesh is None or mesh.is_maximal:
        return times[-1] * price(work_cost(iterations, ()), hardware)
    mappings, count = rule.operands + rule.results, len(rule.operands)
    tensors = [project(mapping, sharding, rule.sizes) for mapping, sharding in zip(mappings, shardings, strict=True)]
    least = math.inf
    for split in dict.fromkeys(_splits(rule, whole, tensors)):
        partial = tuple([axis for factor in sorted(rule.reduction) for axis in split[factor]])
        seconds = times[-1] * price(work_cost(iterations, split), hardware)
        for index, (mapping, type, sharding) in enumerate(zip(mappings, types, shardings, strict=True)):
            if seconds >= least:
                break
            needed = _needed(mesh, mapping, split, rule.sizes)
            lies = needed if sharding is None or _may_become(sharding, needed) else _closed(mesh, sharding)
            ends = (lies, needed) if index < count else (_with_partial(needed, partial), lies)
            seconds += times[index] * _moving(type, *ends, hardware)
        least = min(least, seconds)
    return least


def _splits(rule: ShardingRule, whole: frozenset[int], tensors: Sequence[TensorProjection]) -> Iterator[_Split]:
    """The ways to split the loops: not at all, and as each of the tensors lies, with what others add to that."""
    yield ((),) * len(rule.sizes)
    for first in tensors:
        if any(own.axes for own in first.factors.values()):
            split: list[Axes] = [()] * len(rule.sizes)
            for tensor in (first, *tensors):
                for factor, own in tensor.factors.items():
                    if factor not in whole and prefix_status(split[factor], own.axes) == 1:
                        split[factor] = _free(own.axes, split, factor)
            yield tuple(split)


def _free(axes: Axes, split: Sequence[Axes], factor: int) -> Axes:
    """What of `axes` splits no other factor."""
    used = [axis for other, theirs in enumerate(split) if other != factor for axis in theirs]
    kept: list[AxisRef] = []
    for axis in axes:
        free = without_overlap(axis, used)
        if free is not None:
            kept.append(free)
        if free != axis:
            break
    return tuple(kept)


def _needed(mesh: Mesh, mapping: TensorMapping, split: _Split, sizes: tuple[int, ...]) -> TensorSharding:
    """How a tensor of an op lies whose loops are split so."""
    factors = {factor: FactorSharding(split[factor], (), True, True) for dim in mapping for factor in dim}
    return unproject(mapping, factors, sizes, mesh, (), ())


def _closed(mesh: Mesh, sharding: TensorSharding) -> TensorSharding:
    """A sharding by its axes alone."""
    return TensorSharding(mesh, tuple([DimSharding(dim.axes) for dim in sharding.dims]))


def _with_partial(made: TensorSharding, axes: Axes) -> TensorSharding:
    return made.with_axes(made.axes, [Partial(axis) for axis in made.mesh.in_order(axes)]) if axes else made


def _may_become(sharding: TensorSharding, needed: TensorSharding) -> bool:
    """Whether a sharding may yet be what is needed: axes come to open dimensions, behind those that are there."""
    pairs = zip(sharding.dims, needed.dims, strict=True)
    return all(own.axes == dim.axes or (own.open and prefix_status(own.axes, dim.axes)) for own, dim in pairs)


def _moving(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> float:
    """The seconds of bringing a tensor from one layout to another, padded so that both divide it."""
    if source == target or not type.elements:
        return 0.0
    shards = [math.lcm(axes_size(one), axes_size(other)) for one, other in zip(source.axes, target.axes, strict=True)]
    shape = tuple([-(-size // parts) * parts for size, parts in zip(type.dims, shards, strict=True)])
    cost = plan(shape, type.bytes // type.elements, source, target, hardware, dtype=type.dtype).cost
    return price(cost, hardware)
