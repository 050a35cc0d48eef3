"""What was chosen of a choice graph, and what that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardwright.partition.search.around import Tables
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.sharding import TensorSharding

__all__ = ["Solution", "solution_of"]


@dataclass(frozen=True, slots=True)
class Solution:
    """What was chosen.

    Attributes:
        ways: Of every node, the number of the way.
        links: What each of the values that a link stands for takes by that.
        arcs: The layouts between which those links were brought that are told in full.
        seconds: What all takes.
        bound: What every choice takes at least.
    """

    ways: tuple[int, ...]
    links: tuple[float, ...]
    arcs: Mapping[int, tuple[tuple[TensorSharding, TensorSharding], ...]]
    seconds: float
    bound: float


def solution_of(
    graph: ChoiceGraph, ways: Sequence[int], distances: Distances, bound: float, tables: Tables | None = None
) -> Solution:
    """A choice as a solution, in which a value takes what its dearest reader does, or what `branches` tells.

    Arguments:
        graph: What there was to choose.
        ways: Of every node, the number of the way.
        distances: What redistributions take.
        bound: What every choice takes at least.
        tables: Those of the graph, if it has some already.
    """
    tables = Tables(graph, distances) if tables is None else tables
    links = []
    for number, link in enumerate(graph.links):
        made, *read = [graph.slot(end).of_way[ways[end[0]]] for end in (link.maker, *link.readers)]
        links.append(tables[number].taken(made, read))
    seconds = sum(float(node.seconds[way]) for node, way in zip(graph.nodes, ways, strict=True))
    seconds += sum(link.times * taken for link, taken in zip(graph.links, links, strict=True))
    return Solution(tuple(ways), tuple(links), {}, seconds, min(bound, seconds))
