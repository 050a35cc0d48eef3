"""How long it takes at least on a torus to reduce a value, to gather it and to move it, one after the other.

What `cost.rates` tells, for each of some layouts and each of others.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

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


@memoize
def _places(sources: Shardings, targets: Shardings, bits: Bits) -> _Places:
    """Where atoms are that both use: what is in the way of another, or goes where others come from, takes two moves."""
    before, after = lying_of(sources), lying_of(targets)
    pairs = np.array([[bits.behind(old, new) for new in after.axes] for old in before.axes], dtype=np.intp)
    pairs = pairs.reshape(len(before.axes), len(after.axes), 2)[before.numbers[:, None], after.numbers[None]]
    here, goal = pairs[..., 0], pairs[..., 1]
    used, needed = (np.array([bits.of(one.used_axes) for one in side], dtype=np.intp) for side in (sources, targets))
    leaving, entering = here & needed[None, :, None] & ~goal, goal & used[:, None, None] & ~here
    is_in_the_way = (((here & goal) > 0) | ((leaving > 0) & (entering > 0))).any(axis=2)
    moves = np.where(is_in_the_way, 2, (leaving > 0).any(axis=2))
    return _Places(used, needed, moves, np.bitwise_or.reduce(leaving | (here & goal), axis=2))


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

    def moved(self, along: _Partials) -> Seconds:
        """Of what is complete, or stays contributions along some axes."""
        return self.summed(along, along)

    def summed(self, made: _Partials, along: _Partials) -> Seconds:
        """Of contributions along some axes, of which those along others stay."""
        awaiting, staying = (self.bits.of([p.axis for p in partial]) for partial in (made, along))
        return self.seconds * _parts(self.sources, self.targets, self.bits, awaiting & ~staying, staying)


@memoize
def _parts(sources: Shardings, targets: Shardings, bits: Bits, awaiting: int, staying: int) -> Seconds:
    """Which part of a tensor goes over the busiest link at least, by the atoms along which contributions are combined,
    and those along which they stay.
    """
    rates, places = bits.rates, _places(sources, targets, bits)
    at_hand = len(rates.counts) - 1 & ~staying
    unused = [at_hand & ~needed for needed in places.after.tolist()]
    worst = np.array(rates.crossing)[places.atoms]
    twice = np.minimum(worst + rates.least_crossing, np.maximum(1.0, worst))
    moves = np.where(places.moves == 2, twice, worst)  # nothing where nothing is to be moved
    moves = np.minimum(moves, np.array(list(map(rates.of_gathered_along, unused))))
    moves += rates.of_sums(awaiting)
    counts, links = np.array(rates.counts, dtype=float), np.array(list(map(rates.of_gathers, unused)))
    final, held = 1 / counts[places.after], 1 / counts[places.before[:, None] | places.after[None] | awaiting]
    found: Seconds = np.minimum(*[(final - most) / links + moves * most for most in (1 / counts[at_hand], held)])
    return found
