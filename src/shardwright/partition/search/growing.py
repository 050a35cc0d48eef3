"""How long it takes at least on a torus to reduce a value, to gather it and to move it, one after the other.

What `cost.rates` tells, for each of some layouts and each of others.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
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
from shardwright.sharding import Partial

__all__ = ["Growing", "growing"]

_Partials = tuple[Partial, ...]


def growing(type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware) -> Growing | None:
    """What is known of even parts on one mesh, all of whose devices a torus joins along its axes; `None` otherwise."""
    mesh = sources[0].mesh
    torus = torus_on(mesh.size, hardware.links)
    if torus is None or mesh.size > (hardware.devices_near or mesh.size) or not are_even(sources, targets):
        return None
    bits, every = bits_of(mesh, torus), itertools.chain(sources, targets)
    axes = itertools.chain.from_iterable([(*one.used_axes, *one.partial_axes) for one in every])
    if bits is None or not bits.rates.is_bounded or not bits.tells(axes):
        return None
    return Growing(bits, type.bytes * price(Cost(1.0), hardware), sources, targets)


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


def _places(sources: Shardings, targets: Shardings, bits: Bits, rows: Numbers, columns: Numbers) -> _Places:
    """Where atoms are that both use, of some layouts of each: what is in the way of another, or goes where others come
    from, takes two moves.
    """
    before, after = lying_of(sources), lying_of(targets)
    pairs = _behind(before.axes, after.axes, bits)[before.numbers[rows, None], after.numbers[None, columns]]
    here, goal = pairs[..., 0], pairs[..., 1]
    used, needed = _used(sources, bits)[rows], _used(targets, bits)[columns]
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


@dataclass(frozen=True, slots=True)
class Growing:
    """How long it takes at least, from each of some layouts to each of others.

    Attributes:
        bits: The axes of the mesh.
        seconds: How long all bytes of the tensor take over one link.
        sources: Some layouts.
        targets: And others.
    """

    bits: Bits
    seconds: float
    sources: Shardings
    targets: Shardings

    def summed(self, made: _Partials, along: _Partials) -> Seconds:
        """From the layouts of contributions along some axes to those along others, the same or fewer."""
        return self.seconds * _parts(self.sources, self.targets, self.bits, made, along)


@memoize
def _of_sets(bits: Bits) -> tuple[Seconds, Seconds]:
    """Of each set of atoms what moving takes at least, and which part of a tensor a device holds that they split."""
    return np.array(bits.rates.crossing), 1 / np.array(bits.rates.counts, dtype=float)


@memoize
def _parts(sources: Shardings, targets: Shardings, bits: Bits, made: _Partials, along: _Partials) -> Seconds:
    """Which part of a tensor goes over the busiest link at least, from its contributions along some axes to those along
    others.
    """
    rows, columns = lying_of(sources).partial[made], lying_of(targets).partial[along]
    rates, places = bits.rates, _places(sources, targets, bits, rows, columns)
    combined, staying = (bits.of([p.axis for p in partial]) for partial in (made, along))
    awaiting, at_hand = combined & ~staying, rates.every & ~staying
    unused = [at_hand & ~needed for needed in places.after.tolist()]
    crossing, parts = _of_sets(bits)
    worst = crossing[places.atoms]
    twice = np.minimum(worst + rates.least_crossing, np.maximum(1.0, worst))
    moves = np.where(places.moves == 2, twice, worst)  # nothing where nothing is to be moved
    moves = np.minimum(moves, np.array(list(map(rates.of_gathered_along, unused))))
    moves += rates.of_sums(awaiting)
    links = np.array(list(map(rates.of_gathers, unused)))
    final, held = parts[places.after], parts[places.before[:, None] | places.after[None] | awaiting]
    found: Seconds = np.minimum(*[(final - most) / links + moves * most for most in (parts[at_hand], held)])
    return found
