"""What one all_to_all leads to: atoms leave the ends of some dimensions for the ends of others, all at once.

A dimension gives or takes, never both. What a device keeps of an exchange among n devices is a part of n of what it
has, whatever the order in which atoms arrive, so there are as many ways as there are orders. These are worth trying:
atoms that come next in their target first, the others behind them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardwright.reshard.atoms import Atoms, Layout, Problem

__all__ = ["Exchanges"]


class _Share(NamedTuple):
    """What each of some dimensions takes, by dimension, and how long a part of it is left to be split."""

    arriving: tuple[Atoms, ...]
    rooms: tuple[int, ...]


class Exchanges:
    """The all_to_alls of one problem."""

    def __init__(self, problem: Problem) -> None:
        """Look where atoms belong."""
        self.sizes, self.lengths, self.target = problem.sizes, problem.lengths, problem.target
        self.homes = {atom: dim for dim, atoms in enumerate(problem.target) for atom in atoms}

    def of(self, layout: Layout, movable: Sequence[int]) -> Iterator[tuple[Atoms, Iterator[Layout]]]:
        """Which atoms all_to_alls may move, of the last `movable` of each dimension, and what they make of `layout`.

        What moves the most comes first, and of that what brings most atoms where they belong.
        """
        rooms = [length // self.count(atoms) for length, atoms in zip(self.lengths, layout, strict=True)]
        for given in itertools.product(*[range(count, -1, -1) for count in movable]):
            takers = [dim for dim, count in enumerate(given) if not count]
            if takers and len(takers) < len(given):
                left = [atoms[: len(atoms) - count] for atoms, count in zip(layout, given, strict=True)]
                moved = tuple([atom for atoms, rest in zip(layout, left, strict=True) for atom in atoms[len(rest) :]])
                yield moved, self._placed(left, moved, takers, tuple([rooms[dim] for dim in takers]))

    def count(self, atoms: Sequence[int]) -> int:
        """Into how many shards `atoms` split."""
        return math.prod([self.sizes[atom] for atom in atoms])

    def _placed(self, left: list[Atoms], moved: Atoms, takers: list[int], rooms: tuple[int, ...]) -> Iterator[Layout]:
        """`left` with each of the atoms `moved` in one of the dimensions `takers`."""
        shares = [_Share(((),) * len(takers), rooms)]
        for atom in moved:
            shares = list(self._taken(shares, atom, takers))
        for share in shares:
            orders = [self._orders(left[dim], dim, atoms) for dim, atoms in zip(takers, share.arriving, strict=True)]
            for order in itertools.product(*orders):
                after = left.copy()
                for dim, atoms in zip(takers, order, strict=True):
                    after[dim] = atoms
                yield tuple(after)

    def _taken(self, shares: Sequence[_Share], atom: int, takers: list[int]) -> Iterator[_Share]:
        """Each of `shares` with `atom` taken as well, at its home first."""
        size, home = self.sizes[atom], self.homes.get(atom)
        places = sorted(range(len(takers)), key=lambda place: takers[place] != home)
        for arriving, rooms in shares:
            for place in places:
                if rooms[place] % size == 0:
                    taken = (*arriving[:place], (*arriving[place], atom), *arriving[place + 1 :])
                    yield _Share(taken, (*rooms[:place], rooms[place] // size, *rooms[place + 1 :]))

    def _orders(self, held: Atoms, dim: int, arriving: Atoms) -> tuple[Atoms, ...]:
        """`held` and then `arriving`: first those that come next in the target, then the others.

        These wait there, and may go on one by one: two of them in either order; of more, for which there are too many
        orders, those last that belong in another dimension.
        """
        if not arriving:
            return (held,)
        goal, rest = self.target[dim], sorted(arriving)
        if goal[: len(held)] == held:
            for atom in goal[len(held) :]:
                if atom not in rest:
                    break
                rest.remove(atom)
                held = (*held, atom)
        if len(rest) == 2:
            return (*held, *rest), (*held, *reversed(rest))
        return ((*held, *sorted(rest, key=lambda atom: atom in self.homes)),)
