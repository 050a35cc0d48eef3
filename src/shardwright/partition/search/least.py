"""How long it takes at least to bring a value from one layout to another, told without a plan.

Of a tensor that is complete, or stays a sum of as many contributions, a device must receive what it lacks of its part;
where a dimension is split by other axes than before, some device has nothing of its part.
"""

from __future__ import annotations

import itertools
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
from shardwright.partition.search.lying import lying_of
from shardwright.reshard.bound import least_of_sums
from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import local_bytes

__all__ = ["held_in", "least_between", "least_seconds"]


def held_in(type: TensorType, layouts: Shardings) -> Seconds:
    """Bytes that a device holds in each layout."""
    lying, element_bytes = lying_of(layouts), type.bytes // type.elements
    if not lying.is_even:
        return np.array([float(local_bytes(type.dims, element_bytes, layout)) for layout in layouts])
    sizes = -(-np.array(type.dims, dtype=np.intp) // lying.parts)
    held: Seconds = element_bytes * sizes.prod(axis=1, dtype=float)
    return held


def least_between(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds:
    """`least_seconds` for each of some layouts and each of others."""
    if not (type.elements and sources and targets):
        return np.zeros((len(sources), len(targets)))
    needed, start = held_in(type, targets), price(Cost(0.0, 1), hardware)
    torus = torus_on(sources[0].mesh.size, hardware.links)
    byte = price(Cost(1.0), hardware) / (1 if torus is None else most_links(torus))
    before, after = lying_of(sources).partial, lying_of(targets).partial
    lacking, moves = _of_moved(sources, targets)
    far, over = far_between(type, sources, targets, hardware), growing(type, sources, targets, hardware)
    table = np.full((len(sources), len(targets)), math.inf)
    held, whole, devices = held_in(type, sources), float(type.bytes), sources[0].mesh.size
    for (made, rows), (along, columns) in itertools.product(before.items(), after.items()):
        places, is_moved = (rows[:, None], columns), set(along) == set(made)
        if not (is_moved or set(along) < set(made)):
            continue
        over_links = over.summed(made, along) if over else None
        if is_moved:  # each device receives, or has, contributions of its own to all that it needs
            longer = far.moved(along, rows, columns) if far else None
            sent, starts = lacking[places] * needed[columns], moves[places]
        else:
            contributions, staying = (axes_size([p.axis for p in partial]) for partial in (made, along))
            sums = (contributions // staying, whole * staying, devices)
            sent, started = least_of_sums(held[rows, None], needed[columns], *sums)
            reduced = contributions > staying  # by a collective that leaves where all lies, but for what it cuts
            longer = far.summed(made, along, rows, columns) if far else None
            starts = np.maximum(started, moves[places] + reduced)
        table[places] = _longest(sent * byte, over_links, longer) + starts * start
    return table


def _longest(sent: Seconds, over: Seconds | None, longer: Seconds | None) -> Seconds:
    """The seconds that it takes at least: as long as sending, or what goes over links, and longer to other nodes."""
    most = sent if over is None else np.maximum(sent, over)
    return most if longer is None else most + longer


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
    if len({layout.mesh for layout in (*sources, *targets)}) == 1:  # else the same devices may have other names
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
