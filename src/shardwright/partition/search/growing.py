"""How long it takes at least on a torus to reduce a value, to gather it and to move it, one after the other.

What `cost.rates` tells, for each of some layouts and each of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes, AxisRef, axes_size, common_prefix, primes_of, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.rates import MOST_ATOMS, Rates, rates_of
from shardwright.cost.torus import Torus, lines_of
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.lying import lying_of
from shardwright.sharding import Partial

__all__ = ["Growing", "growing"]

_Partials = tuple[Partial, ...]


def growing(
    type: TensorType, sources: Shardings, targets: Shardings, hardware: Hardware, torus: Torus
) -> Growing | None:
    """What is known of even parts on one mesh, dimensions of the torus along its axes; `None` of odd parts of axes."""
    bits = _bits_of(sources[0].mesh, torus)
    every = itertools.chain(sources, targets)
    axes = itertools.chain.from_iterable([(*one.used_axes, *one.partial_axes) for one in every])
    if bits is None or not all(map(bits.tells, dict.fromkeys(axes))):
        return None
    return Growing(bits, float(type.bytes), price(Cost(1.0), hardware), _places(sources, targets, bits))


class _Bits(NamedTuple):
    """The axes of a mesh by their smallest parts.

    Attributes:
        atoms: The parts, each of prime size: sets of them are told by bits.
        rates: What collectives along some of them take at best.
    """

    atoms: Axes
    rates: Rates

    def tells(self, axis: AxisRef) -> bool:
        """Whether an axis is made of such parts."""
        return axes_size([atom for atom in self.atoms if axis.contains(atom)]) == axis.size

    def of(self, axes: Iterable[AxisRef]) -> int:
        """The parts of some axes."""
        every = enumerate(self.atoms)
        axes = tuple(axes)
        return sum([1 << number for number, atom in every if any(axis.contains(atom) for axis in axes)])


@memoize
def _bits_of(mesh: Mesh, torus: Torus) -> _Bits | None:
    atoms = tuple(itertools.chain(*[primes_of(mesh.axis(name)) for name, size in mesh.axes if size > 1]))
    lines = tuple([lines_of((atom,), mesh, torus) for atom in atoms])
    return _Bits(atoms, rates_of(lines)) if 0 < len(atoms) <= MOST_ATOMS else None


class _Places(NamedTuple):
    """What layouts use, as sets of bits, and how much is out of place.

    Attributes:
        before: Of each of some layouts.
        after: Of each of others.
        moves: By both: nothing, what one all_to_all does, or what takes two of them or a permute.
    """

    before: Numbers
    after: Numbers
    moves: Numbers


@memoize
def _places(sources: Shardings, targets: Shardings, bits: _Bits) -> _Places:
    """Where atoms are that both use: what is in the way of another, or goes where others come from, takes two moves."""
    before, after = lying_of(sources), lying_of(targets)
    pairs = np.array([[_behind(old, new, bits) for new in after.axes] for old in before.axes], dtype=np.intp)
    pairs = pairs.reshape(len(before.axes), len(after.axes), 2)[before.numbers[:, None], after.numbers[None]]
    here, goal = pairs[..., 0], pairs[..., 1]
    used, needed = (np.array([bits.of(one.used_axes) for one in side], dtype=np.intp) for side in (sources, targets))
    leaving, entering = here & needed[None, :, None] & ~goal, goal & used[:, None, None] & ~here
    is_in_the_way = (((here & goal) > 0) | ((leaving > 0) & (entering > 0))).any(axis=2)
    return _Places(used, needed, np.where(is_in_the_way, 2, (leaving > 0).any(axis=2)))


def _behind(old: Axes, new: Axes, bits: _Bits) -> tuple[int, int]:
    """What is behind the axes with which both begin."""
    same = common_prefix(old, new)
    return bits.of(subtract_axes(old, same)), bits.of(subtract_axes(new, same))


@dataclass(frozen=True, slots=True)
class Growing:
    """How long it takes at least, from each of some layouts to each of others.

    Attributes:
        bits: The axes of the mesh.
        bytes: Those of the tensor.
        byte: How long one takes over one link.
        places: What layouts use, and how much is out of place.
    """

    bits: _Bits
    bytes: float
    byte: float
    places: _Places

    def moved(self, along: _Partials) -> Seconds:
        """Of what is complete, or stays contributions along some axes."""
        return self.summed(along, along)

    def summed(self, made: _Partials, along: _Partials) -> Seconds:
        """Of contributions along some axes, of which those along others stay."""
        rates, every = self.bits.rates, len(self.bits.rates.counts) - 1
        awaiting, staying = (self.bits.of([p.axis for p in partial]) for partial in (made, along))
        awaiting &= ~staying
        unused = [every & ~staying & ~int(needed) for needed in self.places.after]
        links = np.array(list(map(rates.of_gathers, unused)))
        moves = np.array([[rates.of_moves(some, count) for some in unused] for count in range(3)])
        of_moves = np.take_along_axis(moves, self.places.moves, axis=0)
        sums = (rates.counts[awaiting] - 1) / rates.links[awaiting]
        counts = np.array(rates.counts, dtype=float)
        final, least = self.bytes / counts[self.places.after], self.bytes / counts[every & ~staying]
        held = self.bytes / counts[self.places.before[:, None] | self.places.after[None] | awaiting]
        found = [(final - most) / links + (of_moves + sums) * most for most in (least, held)]
        seconds: Seconds = self.byte * np.minimum(*found)
        return seconds
