"""Uneven arguments and results: those that a user asks for stay so.

Propagation, as Shardy has it, leaves only what divides of the shardings of arguments and results. What it cut is taken
from the program that was annotated; what it added of its own, or left out for another reason, stays as it made it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from shardwright.axes import axes_size, is_prefix, merge_axes, overlaps_any
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["is_kept_uneven", "with_stated_boundary"]


@memoize
def is_kept_uneven(sharding: TensorSharding, type: TensorType) -> bool:
    """Whether an argument or result of this sharding lies unevenly: it does not divide, and leaves devices less to hold
    than what divides of it. Contributions are not padded, and neither is what has offsets or halos.
    """
    if not type.is_tensor or sharding.mesh.is_maximal or sharding.divides(type.dims):
        return False
    if sharding.partial or sharding.offsets or sharding.halos:
        return False
    even = sharding.evenly_dividing(type.dims)
    return math.prod(sharding.local_shape(type.dims)) < math.prod(even.local_shape(type.dims))


def with_stated_boundary(graph: Graph, annotated: Graph) -> Graph:
    """A propagated program whose arguments and results lie unevenly where the annotated one states it. So do results
    where it leaves open how they lie, and the value that is returned lies so.

    The graph given stays as it is, and is given back where nothing changes.
    """
    before, main = annotated.main, graph.main
    shardings = list(graph.shardings)
    for stated, value in zip(before.block.arguments, main.block.arguments, strict=True):
        asked = annotated.shardings[stated]
        shardings[value] = _uncut(shardings[value], asked, asked, graph.types[value])
    returned = zip(before.result_shardings, main.result_shardings, main.block.terminator.operands, strict=True)
    results = [_uncut(kept, asked, graph.shardings[value], graph.types[value]) for asked, kept, value in returned]
    if shardings == graph.shardings and results == main.result_shardings:
        return graph
    return replace(graph, shardings=shardings, main=replace(main, result_shardings=results))


def _uncut(
    kept: TensorSharding | None, asked: TensorSharding | None, own: TensorSharding | None, type: TensorType
) -> TensorSharding | None:
    """What was kept of a sharding at the boundary, with the axes that were cut since they do not divide.

    Arguments:
        kept: What propagation left of it.
        asked: What the annotated program states.
        own: How the value itself lies.
        type: Its type.
    """
    if kept is None or not type.is_tensor or kept.mesh.is_maximal:
        return kept
    asked, own = (None if one is None or one.mesh != kept.mesh else one for one in (asked, own))
    dims = list(kept.dims)
    for number, dim in enumerate(kept.dims):
        stated = None if asked is None else asked.dims[number]
        for whole in (stated, own.dims[number] if own is not None and (stated is None or stated.open) else None):
            axes = () if whole is None else merge_axes(whole.axes)
            if whole is not stated or (whole is not None and whole.open):  # no caller can name a part of an axis
                axes = tuple(itertools.takewhile(kept.mesh.is_full, axes))
            others = [*kept.replicated, *(axis for at, other in enumerate(dims) if at != number for axis in other.axes)]
            is_free = not any(overlaps_any(axis, others) for axis in axes)  # the value may lie along it elsewhere
            if type.dims[number] % axes_size(axes) and is_prefix(dim.axes, axes) and is_free:
                dims[number] = DimSharding(axes)
                break
    uneven = replace(kept, dims=tuple(dims))
    return uneven if is_kept_uneven(uneven, type) else kept
