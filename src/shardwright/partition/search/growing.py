"""How long it takes at least on a torus to reduce a value, to gather it and to move it, one after the other.

What `cost.rates` tells, for each of some layouts and each of others at once.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.rates import Bits, bits_of
from shardwright.cost.torus import torus_on
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.lying import are_even, lying_of

__all__ = ["growing"]


def growing(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Seconds | None:
    """Seconds from each of some layouts to each of others, where contributions are along axes of those before.

    `None` where not all parts are even and on one mesh, all of whose devices a torus joins along its axes.
    """
    mesh, before, after = sources[0].mesh, lying_of(sources), lying_of(targets)
    torus = torus_on(mesh.size, hardware.links)
    if torus is None or mesh.size > (hardware.devices_near or mesh.size) or not are_even(before, after):
        return None
    bits = bits_of(mesh, torus)
    if bits is None or not bits.rates.is_bounded:
        return None
    sums = itertools.chain(*before.sums, *after.sums)
    if not bits.tells(itertools.chain(*before.axes, *after.axes, [p.axis for p in sums])):
        return None
    return type.bytes * price(Cost(1.0), hardware) * _parts(sources, targets, bits)


class _Places(NamedTuple):
    """What layouts use, as sets of bits, and how much is out of place.

    Attributes:
        before: Of each of some layouts.
        after: Of each of others.
        moves: By both: nothing, what one all_to_all does, or what takes two of them or a permute.
        atoms: What must be moved.
    """

    before: Numbers
    after: Numbers
    moves: Numbers
    atoms: Numbers


def _places(sources: Shardings, targets: Shardings, bits: Bits) -> _Places:
    """Where atoms are that both use, of each: what is in the way of another, or goes where others come from, takes two
    moves.
    """
    before, after = lying_of(sources), lying_of(targets)
    pairs = _behind(before.axes, after.axes, bits)[before.numbers[:, None], after.numbers[None]]
    here, goal = pairs[..., 0], pairs[..., 1]
    used, needed = _used(sources, bits), _used(targets, bits)
    leaving, entering = here & needed[None, :, None] & ~goal, goal & used[:, None, None] & ~here
    is_in_the_way = (((here & goal) > 0) | ((leaving > 0) & (entering > 0))).any(axis=2)
    moves = np.where(is_in_the_way, 2, (leaving > 0).any(axis=2))
    return _Places(used, needed, moves, np.bitwise_or.reduce(leaving | (here & goal), axis=2))


@memoize
def _used(layouts: Shardings, bits: Bits) -> Numbers:
    """What each of some layouts uses."""
    return np.array([bits.of(one.used_axes) for one in layouts], dtype=np.intp)


@memoize
def _behind(before: tuple[Axes, ...], after: tuple[Axes, ...], bits: Bits) -> Numbers:
    """For each axes of a dimension before and after, the parts behind what both begin with."""
    pairs = np.array([[bits.behind(old, new) for new in after] for old in before], dtype=np.intp)
    return pairs.reshape(len(before), len(after), 2)


@memoize
def _of_sets(bits: Bits) -> tuple[Seconds, Seconds]:
    """Of each set of atoms what moving takes at least, and which part of a tensor a device holds that they split."""
    return np.array(bits.rates.crossing), 1 / np.array(bits.rates.counts, dtype=float)


@memoize
def _parts(sources: Shardings, targets: Shardings, bits: Bits) -> Seconds:
    """Which part of a tensor goes over the busiest link at least, from each layout to each."""
    before, after, rates = lying_of(sources), lying_of(targets), bits.rates
    places, (crossing, parts) = _places(sources, targets, bits), _of_sets(bits)
    combined, staying = (np.array([bits.of([p.axis for p in one]) for one in lying.sums]) for lying in (before, after))
    awaiting = combined[:, None] & ~staying
    is_told = (staying & ~combined[:, None]) == 0
    reducing = np.array([rates.of_sums(some) for some in np.where(is_told, awaiting, 0).ravel().tolist()])
    which = before.sum_of[:, None], after.sum_of
    at_hand = rates.every & ~staying[after.sum_of]
    unused = (at_hand & ~places.after).tolist()
    worst = crossing[places.atoms]
    twice = np.minimum(worst + rates.least_crossing, np.maximum(1.0, worst))
    moves = np.where(places.moves == 2, twice, worst)  # nothing where nothing is to be moved
    moves = np.minimum(moves, np.array(list(map(rates.of_gathered_along, unused))))
    moves += reducing.reshape(awaiting.shape)[which]
    links = np.array(list(map(rates.of_gathers, unused)))
    final, held = parts[places.after], parts[places.before[:, None] | places.after | awaiting[which]]
    found: Seconds = np.minimum(*[(final - most) / links + moves * most for most in (parts[at_hand], held)])
    return found
