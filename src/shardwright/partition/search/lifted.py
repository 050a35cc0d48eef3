"""Messages of a folded graph, passed on among all the nodes that were alike there.

What is proven of a folded graph holds for choices in which nodes alike are chosen alike. Any node may have less than
its part of what all of them have; but where each begins with its part of what was moved, few passes settle what is
to be moved besides, and what every choice takes at least is told as if nothing had been folded.
"""

from __future__ import annotations

import numpy as np

from shardwright.partition.search.folded import Folded
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.messages import Messages

__all__ = ["lifted"]


def lifted(folded: Folded, messages: Messages, graph: ChoiceGraph) -> Messages:
    """Messages of a graph, by which as much was moved as by those of what it was folded to, in equal parts."""
    found = Messages(graph, messages.most)
    for node, slots, parts, nodes in folded.seen:
        given = [messages.given[node][slot] / part for slot, part in zip(slots, parts, strict=True)]
        block = np.concatenate([np.zeros(0), *given])
        for number in nodes:
            found.at[number].block[:] = block
    return found
