"""To which layouts results are reduced right behind their ops: those that are partial by another kind than sum."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from operator import attrgetter

import numpy as np

from shardwright.partition.search.outline import Kind, Outline
from shardwright.sharding import TensorSharding

__all__ = ["reduced_behind"]


def reduced_behind(
    choices: Outline, ways: Sequence[int], made_of: Mapping[tuple[int, TensorSharding], TensorSharding]
) -> dict[int, TensorSharding]:
    """For each result that nothing leaves partial the layout in which it is read: of several the one of which the
    others are made, or of those that nothing tells apart so, the one of which a device holds most.

    Arguments:
        choices: What there was to choose.
        ways: Of every node, the number of the way chosen.
        made_of: Versions, with the one that each is to be made of.
    """
    found = dict[int, TensorSharding]()
    lying = {id(place.layouts): place.layouts for kind in choices.kinds for place in kind.places}  # most lie alike
    reduced = {
        key for key, layouts in lying.items() if any(layout.partial and _is_reduced(layout) for layout in layouts)
    }
    if not reduced:
        return found
    kinds = [number for number, kind in enumerate(choices.kinds) if _is_among(kind, reduced)]
    for node in np.flatnonzero(np.isin(choices.kind_of, kinds)).tolist():
        for link in choices.ends.links[choices.ends.of_node(node)].tolist():
            maker, *readers = choices.ends_of(link)
            made, value = choices.layout(maker, ways), choices.values[link]
            if maker[0] != node or not _is_reduced(made):
                continue
            read = dict.fromkeys([choices.layout(end, ways) for end in readers])
            first = [one for one in read if not one.partial and made_of.get((value, one), made) == made]
            if first:
                found[value] = min(first, key=attrgetter("shards"))
    return found


def _is_among(kind: Kind, lying: Container[int]) -> bool:
    return bool(kind.ways) and any(id(place.layouts) in lying for place in kind.places)


def _is_reduced(layout: TensorSharding) -> bool:
    return any(one.kind != "sum" for one in layout.partial)
