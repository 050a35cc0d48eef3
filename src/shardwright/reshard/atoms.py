"""A redistribution as bare numbers: axes are *atoms*, small integers that are moved whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from shardwright.cost.torus import Line

__all__ = [
    "EXCHANGE",
    "GATHER",
    "PERMUTE",
    "REDUCE",
    "SCATTER",
    "SLICE",
    "Atoms",
    "Edge",
    "Layout",
    "Node",
    "Problem",
    "SearchState",
]

SLICE, GATHER, EXCHANGE, PERMUTE, REDUCE, SCATTER = "slice", "gather", "exchange", "permute", "reduce", "scatter"

Atoms = tuple[int, ...]
"""Atoms, major to minor."""

Layout = tuple[Atoms, ...]
"""The atoms of every dimension."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A redistribution without names.

    Attributes:
        sizes: Devices along each atom.
        lengths: Per dimension, a number that a product of atom sizes divides if and only if it may split it.
        source: Where the atoms are.
        target: Where they shall be.
        partial: Atoms along which contributions must be combined.
        kinds: For each of them, the number of its reduction; those of the highest number must come first.
        clashes: Per atom, the set (as bits) of atoms that cannot be in use together with it.
        permute: Whether a permute must be among the steps, because the order of devices changes.
        by_hand: Of the numbers of reductions those that gather all contributions where they do not scatter.
        named: Whether only steps are taken that ops of `sdy` are for: see `steps.is_in_sdy`.
        far: Atoms along which devices are of different nodes, where they are not so along others.
        farther: What a byte along these counts more than one that stays in its node.
        lines: On what lines of a torus devices along each atom are; nothing where a switch joins them.
        is_on_grid: Whether that is exact: see `cost.torus`.
    """

    sizes: Atoms
    lengths: tuple[int, ...]
    source: Layout
    target: Layout
    partial: Atoms
    kinds: tuple[int, ...]
    clashes: tuple[int, ...]
    permute: bool
    by_hand: frozenset[int] = frozenset()
    named: bool = False
    far: frozenset[int] = frozenset()
    farther: int = 0
    lines: tuple[tuple[Line, ...], ...] = ()
    is_on_grid: bool = False


class Node(NamedTuple):
    """The `kind` of a step and what it leads to. Neighbours of one kind are one collective, where that can be."""

    kind: str
    layout: Layout
    partial: Atoms


class SearchState(NamedTuple):
    """Where a search may be. `run` names the collective that the next step may still be part of."""

    layout: Layout
    partial: Atoms
    permuted: bool
    run: str


class Edge(NamedTuple):
    """A step: what a device sends, how many collectives more it takes, its kind, and what it leads to."""

    sent: int
    starts: int
    kind: str
    state: SearchState
