"""Messages of a folded graph, passed on among all the nodes that were alike there.

What is proven of a folded graph holds for choices in which nodes alike are chosen alike. Any node may have less than
its part of what all of them have; but where each begins with its part of what was moved, few passes settle what is
to be moved besides, and what every choice takes at least is told as if nothing had been folded. What is read off them
need not choose alike what is alike: the best of a stack of layers may be that some lie otherwise than the rest.
"""

from __future__ import annotations

import math

import numpy as np

from shardwright.partition.search.distances import Distances
from shardwright.partition.search.folded import Folded
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.messages import Messages

__all__ = ["lifted", "settled"]

_PASSES, _SETTLED = 120, 0.02
"""How often messages are passed on at most, and the part of what is not proven below which a growing bound rests."""


def lifted(folded: Folded, messages: Messages, graph: ChoiceGraph) -> Messages:
    """Messages of a graph, by which as much was moved as by those of what it was folded to, in equal parts."""
    found = Messages(graph, messages.most)
    for node, slots, parts, nodes in folded.seen:
        given = [messages.given[node][slot] / part for slot, part in zip(slots, parts, strict=True)]
        block = np.concatenate([np.zeros(0), *given])
        for number in nodes:
            found.at[number].block[:] = block
    return found


def settled(messages: Messages, distances: Distances, found: float, near: float) -> float:
    """What every choice takes at least, as messages tell it when they have settled.

    Arguments:
        messages: What was moved by now; they are passed on.
        distances: What redistributions take.
        found: Seconds that a choice is known to take.
        near: Which part of the bound may be missing to them.
    """
    bound, before = 0.0, -math.inf
    for _ in range(_PASSES):
        bound = messages.least(distances, 1)
        if found - bound <= near * bound or bound - before <= _SETTLED * (found - bound):
            break
        before = bound
    return bound
