"""How long it takes at least to bring a value from one layout to another, told without a plan.

Of a tensor that is complete, or stays a sum of as many contributions, a device must receive what it lacks of its part;
where a dimension is split by other axes than before, some device has nothing of its part.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, axes_size, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.torus import most_links, torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.far import far_between
from shardwright.partition.search.growing import growing
from shardwright.partition.search.held import held_in
from shardwright.partition.search.lying import Lying, lying_of
from shardwright.reshard.bound import least_of_sums
from shardwright.sharding import TensorSharding, same_placement

__all__ = ["least_between", "least_seconds"]

_NONE, _FEWER, _SAME = range(3)
"""Of the axes along which a value is partial, which may be there behind others."""


def least_between(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds:
    """`least_seconds` for each of some layouts and each of others."""
    if not (type.elements and sources and targets):
        return np.zeros((len(sources), len(targets)))
    needed, start = held_in(type, targets), price(Cost(0.0, 1), hardware)
    torus = torus_on(sources[0].mesh.size, hardware.links)
    byte = price(Cost(1.0), hardware) / (1 if torus is None else most_links(torus))
    before, after = lying_of(sources), lying_of(targets)
    lacking, starts = _of_moved(sources, targets)
    staying = _staying(before, after)[before.sum_of[:, None], after.sum_of]
    sent = lacking * needed  # each device receives, or has, contributions of its own to all that it needs
    if (is_summed := staying == _FEWER).any():
        held, devices = held_in(type, sources)[:, None], sources[0].mesh.size
        made, along = before.sum_sizes[before.sum_of][:, None], after.sum_sizes[after.sum_of]
        sent_summed, started = least_of_sums(held, needed, made // along, float(type.bytes) * along, devices)
        sent = np.where(is_summed, sent_summed, sent)
        # reduced by a collective that leaves where all lies, but for what it cuts
        starts = np.where(is_summed, np.maximum(started, starts + (made > along)), starts)
    over_links = growing(type, sources, targets, hardware)
    table = sent * byte if over_links is None else np.maximum(sent * byte, over_links)
    if far := far_between(type, sources, targets, hardware):
        table += far.between(before, after)
    return np.where(staying == _NONE, math.inf, table + starts * start)


def _staying(before: Lying, after: Lying) -> NDArray[np.int8]:
    """Whether sums along some axes can become those along others: `_SAME`, `_FEWER` of them, or `_NONE`."""
    made, along = list(map(set, before.sums)), list(map(set, after.sums))
    return np.array(
        [[_SAME if one == other else _FEWER if other < one else _NONE for other in along] for one in made], np.int8
    )


@memoize
def _of_moved(sources: Shardings, targets: Shardings) -> tuple[Seconds, NDArray[np.int8]]:
    """Which part of what it needs of a tensor in a target a device lacks at least that has it in a source, as complete
    as it shall be, and how many collectives bring it.

    A dimension of which a device needs what it has not takes a gather, if there are to be fewer parts in all: one
    gathers along one dimension.
    """
    before, after = lying_of(sources), lying_of(targets)
    shared = _of_pairs(before.axes, after.axes)[before.numbers[:, None], after.numbers[None]]
    lacking: Seconds = 1 - shared.prod(axis=2)
    moves = (lacking > 0).astype(np.int8)
    if len(before.meshes | after.meshes) == 1:  # else the same devices may have other names
        is_gathered = before.parts.prod(axis=1)[:, None] > after.parts.prod(axis=1)[None]
        moves[is_gathered & ((shared < 1).sum(axis=2) > 1)] = 2
    is_alike = (before.parts[:, None] == after.parts[None]).all(axis=2)
    for row, column in np.argwhere(is_alike & (lacking > 0)):  # few: mostly the same axes elsewhere
        if same_placement(sources[row], targets[column]):
            lacking[row, column], moves[row, column] = 0.0, 0
    return lacking, moves


@memoize
def _of_pairs(before: tuple[Axes, ...], after: tuple[Axes, ...]) -> Seconds:
    """For each axes of a dimension before and after, `_least_shared`."""
    return np.array([[_least_shared(one, other) for other in after] for one in before]).reshape(len(before), len(after))


@memoize
def least_seconds(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> float:
    """Seconds that bringing a tensor from one layout to another takes at least, told without a plan.

    Infinite where no plan leads there, the target being partial and the source not so: contributions are not made.
    """
    return float(least_between(type, (source,), (target,), hardware)[0, 0])


def _least_shared(before: Axes, after: Axes) -> float:
    """Which part of what it needs of a dimension the device with least has already; axes of size 1 split nothing."""
    before, after = (tuple([axis for axis in axes if axis.size > 1]) for axes in (before, after))
    same = common_prefix(before, after)
    given, taken = (axes_size(subtract_axes(axes, same)) for axes in (before, after))
    return 0.0 if given > 1 and taken > 1 else 1 / given
