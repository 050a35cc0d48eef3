"""What the decision on each op of a program without regions looks at: which values it reads, and whose layouts it asks.

Of a program that is propagated again and again the ops hardly change, and neither does that. An op reads the states of
its operands: of what is asked to lie otherwise those of the value itself, and of what any device makes for itself, a
constant or a broadcast scalar, also those of what that is made of.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.rules.traits import facts_of

__all__ = ["Site", "Sites", "is_at_uses"]


@dataclass(slots=True, eq=False)
class Site:
    """An op among the ops that make what it reads.

    Attributes:
        op: The op.
        reads: The values whose states it reads.
        values: The values whose layouts it asks: those that it reads, by whatever name, and those that it makes.
        makers: Of the values that it reads by another name, or that are made where they are read, the ops.
        form: Equal of sites that differ only in which values these are.
        known: What was decided, by those states and layouts.
    """

    op: Op
    reads: tuple[int, ...]
    values: tuple[int, ...]
    makers: dict[int, Op]
    form: Hashable
    known: dict[Hashable, Any] = field(default_factory=dict)


def is_at_uses(op: Op) -> bool:
    """Whether an op is computed where its result is read: a constant, or a broadcast of a scalar."""
    if op.signature.name == "stablehlo.broadcast_in_dim":
        return not op.signature.operands[0].rank
    return facts_of(op.signature.name).constant


class _Block(NamedTuple):
    """A block: how many operands read each value, the ops that makers are, and the sites of the others."""

    uses: list[int]
    makers: dict[int, Op]
    sites: dict[Op, Site]


class Sites:
    """The sites of blocks that share ops: ops that read the same, as often as others do, are one site."""

    def __init__(self) -> None:
        """None yet."""
        self._sites: dict[Hashable, Site] = {}
        self._at_uses: dict[int, bool] = {}  # by the identity of signatures, which ops share
        self._first: _Block | None = None

    def of(self, block: Block, uses: list[int]) -> list[Site]:
        """The sites of a block, in order, those of ops left out that are computed where they are read.

        Arguments:
            block: The block; no op in it has regions.
            uses: How many operands read each value.
        """
        makers: dict[int, Op] = {}
        ops: list[Op] = []
        for op in block.ops:
            at_uses = self._at_uses.get(id(op.signature))
            if at_uses is None:
                at_uses = self._at_uses[id(op.signature)] = is_at_uses(op)
            if not at_uses:
                ops.append(op)
            if at_uses or op.signature.name in LAYOUTS:
                makers.update(dict.fromkeys(op.results, op))
        if self._first is None:
            sites = [self._site(op, makers, uses) for op in ops]
            self._first = _Block(uses, makers, dict(zip(ops, sites, strict=True)))
            return sites
        return self._as_first(self._first, ops, makers, uses)

    def _as_first(self, first: _Block, ops: list[Op], makers: dict[int, Op], uses: list[int]) -> list[Site]:
        """The sites of a block most of whose ops are of the first one, and read what they read there."""
        other = {value for value, (now, then) in enumerate(zip(uses, first.uses, strict=True)) if now != then}
        other.update([value for value, op in makers.items() if first.makers.get(value) is not op])
        other.update(first.makers.keys() - makers.keys())
        sites: list[Site] = []
        for op in ops:
            known = first.sites.get(op)
            if known is None or not other.isdisjoint(known.values):
                known = self._site(op, makers, uses)
            sites.append(known)
        return sites

    def _site(self, op: Op, makers: dict[int, Op], uses: list[int]) -> Site:
        if makers.keys().isdisjoint(op.operands):
            chain, made = tuple(dict.fromkeys(op.operands)), dict[int, Op]()
        else:
            chain = _chain(op.operands, makers)
            made = {value: makers[value] for value in chain if value in makers}
        values = (*chain, *op.results)  # of three uses no more is known than of two, and none of what any device makes
        counts = [2 if value in made and is_at_uses(made[value]) else min(2, uses[value]) for value in values]
        key = op, tuple(made.values()), tuple(counts)
        site = self._sites.get(key)
        if site is None:
            reads = tuple([value for value in chain if value not in made or is_at_uses(made[value])])
            site = Site(op, reads, values, made, _form(op, made, values, counts))
            self._sites[key] = site
        return site


def _form(op: Op, makers: dict[int, Op], values: tuple[int, ...], counts: list[int]) -> Hashable:
    """What is left of a site when values are told by their places among its values."""
    places = {value: place for place, value in enumerate(values)}
    made = [(places[value], id(one.signature), *map(places.get, one.operands)) for value, one in makers.items()]
    return id(op.signature), *map(places.get, op.operands), *made, *counts


def _chain(operands: Iterable[int], makers: dict[int, Op]) -> tuple[int, ...]:
    """Values, and those that the ones among them are, or are made of, each once."""
    found: dict[int, None] = {}
    waiting = list(reversed(list(operands)))
    while waiting:
        value = waiting.pop()
        if value not in found:
            found[value] = None
            if value in makers:
                waiting += reversed(makers[value].operands)
    return tuple(found)
