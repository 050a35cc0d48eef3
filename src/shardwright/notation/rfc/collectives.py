"""The collectives of the mesh RFC: what their attributes and types must agree on, and the sdy collectives they are.

The RFC compares lists of axes as sets: `all_gather {mesh_axis = [[1]]}` may lead from `[[1, 0]]` to `[[0]]`. Axes in
our model go from major to minor and sdy collectives take and give the minor ones, so what asks for another order gets a
permutation before or after.

`collective_permute {mesh_axis = 0}` hands each shard to the next device along the axis, and the last one to the first:
the text does not say how far or which way. That rolls a dimension by one part, so it is no step between layouts.

Source: the mesh RFC on LLVM's forum, AllGatherOp to ReduceScatterOp; the sdy dialect reference for their counterparts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.notation.rfc.layouts import Layout, Lists, checked, spelled_lists, trimmed

__all__ = ["COLLECTIVES", "Collective", "Move", "check", "moves", "spelled"]


@dataclass(frozen=True, slots=True)
class Collective:
    """A communication of the RFC: its name (`all_gather`), its attributes and the layouts it leads from and to."""

    name: str
    source: Layout
    target: Layout
    attributes: Mapping[str, Any]

    @property
    def rank(self) -> int:
        """Dimensions of the tensor."""
        return len(self.source.dims)


@dataclass(frozen=True, slots=True)
class Move:
    """One sdy collective: its name, the axes it moves by dimension, and the layout that it gives.

    `axes` are gathered, sliced or scattered axes by dimension; `partial` the reduced ones; `between` the dimensions
    that an all_to_all goes between. A `roll` is no collective of sdy: it has the axis, by dimension, whose devices hand
    on what they hold.
    """

    name: str
    target: Layout
    axes: Lists = ()
    partial: tuple[int, ...] = ()
    between: tuple[int, int] = (0, 0)


def check(collective: Collective) -> None:
    """Check that the types of a collective agree with its attributes.

    Raises:
        ShardingError: saying what the attributes ask for and what the types say.
    """
    if len(collective.source.dims) != len(collective.target.dims):
        raise _disagree(
            collective, "a collective keeps the dimensions of its tensor", "give operand and result one shape"
        )
    COLLECTIVES[collective.name](collective)


def moves(collective: Collective) -> tuple[Move, ...]:
    """The sdy collectives, one after another, that a checked collective is.

    Raises:
        ShardingError: neighbours exchange shards along an axis within another one's, which rolls no dimension.
    """
    return _MOVES[collective.name](collective)


def _disagree(collective: Collective, cause: str, remedy: str = "") -> ShardingError:
    return ShardingError(
        f"the types of mesh.{collective.name} do not agree with its attributes",
        cause=f"{cause}; it leads from {collective.source.text} to {collective.target.text}",
        remedy=remedy or "correct the attribute, or the type of the result",
    )


def _same_partial(collective: Collective) -> None:
    if set(collective.source.partial) != set(collective.target.partial):
        raise _disagree(collective, "it does not reduce, and the partial axes differ")


def _lists(collective: Collective, name: str) -> Lists:
    lists = collective.attributes[name]
    if len(lists) > collective.rank:
        raise ShardingError(
            f"{name} of mesh.{collective.name} has {len(lists)} lists for a tensor of {collective.rank} dimensions",
            remedy="give at most one list of axes for each dimension",
        )
    return checked("", lists, collective.rank).dims


def _dimension(collective: Collective, dim: int) -> int:
    if not 0 <= dim < collective.rank:
        raise ShardingError(
            f"tensor_axis {dim} of mesh.{collective.name} is no dimension of its tensor",
            cause=f"the tensor has {collective.rank} dimensions, counted from 0",
            remedy=f"use 0 to {collective.rank - 1}" if collective.rank else "take a tensor of at least one dimension",
        )
    return dim


def _check_gather(collective: Collective) -> None:
    gathered = _lists(collective, "mesh_axis")
    dims = collective.attributes.get("tensor_axis")
    named = sorted(_dimension(collective, dim) for dim in dims or ())
    if dims is not None and named != [dim for dim, axes in enumerate(gathered) if axes]:
        raise _disagree(collective, f"tensor_axis is {list(dims)}, mesh_axis {spelled_lists(gathered)}")
    for dim, axes in enumerate(gathered):
        rest = set(collective.source.dims[dim]) - set(axes)
        if not set(axes) <= set(collective.source.dims[dim]) or rest != set(collective.target.dims[dim]):
            raise _disagree(collective, f"axes {list(axes)} are gathered in dimension {dim}")
    _same_partial(collective)


def _check_split(collective: Collective) -> None:
    split = _split_axes(collective)
    for dim, axes in enumerate(split):
        if set(axes) & set(collective.source.axes):
            raise ShardingError(
                f"mesh.local_split splits along axes {list(axes)} that its operand uses already",
                cause=f"the operand is {collective.source.text}",
                remedy="take out of `sharding` what the operand is split or partial along",
            )
        if set(collective.source.dims[dim]) | set(axes) != set(collective.target.dims[dim]):
            raise _disagree(collective, f"axes {list(axes)} split dimension {dim}")
    _same_partial(collective)


def _split_axes(collective: Collective) -> Lists:
    """What a split adds; where its attribute is missing, what the types say."""
    if collective.attributes.get("sharding") is not None:
        return _lists(collective, "sharding")
    pairs = zip(collective.source.dims, collective.target.dims, strict=True)
    return tuple(tuple(axis for axis in target if axis not in source) for source, target in pairs)


def _reduced(collective: Collective) -> tuple[int, ...]:
    axes: tuple[int, ...] = collective.attributes["mesh_axis"]
    kind = collective.attributes.get("reduction") or "sum"
    if kind != "sum":
        raise ShardingError(
            f"mesh.{collective.name} reduces by {kind!r} what its type says is a partial sum",
            cause="the partial axes of the RFC are sums",
            remedy='write reduction = "sum"',
        )
    if len(set(axes)) != len(axes) or not set(axes) <= set(collective.source.partial):
        raise _disagree(
            collective, f"it reduces along axes {list(axes)}", "reduce along partial axes of the operand, once"
        )
    if set(collective.target.partial) != set(collective.source.partial) - set(axes):
        raise _disagree(collective, f"it reduces along axes {list(axes)}, and other partial axes remain")
    return axes


def _check_reduce(collective: Collective) -> None:
    _reduced(collective)
    if collective.source.dims != collective.target.dims:
        raise _disagree(collective, "an all_reduce splits no dimension and gathers none")


def _check_scatter(collective: Collective) -> None:
    axes = set(_reduced(collective))
    dim = _dimension(collective, collective.attributes["tensor_axis"])
    for index, (source, target) in enumerate(zip(collective.source.dims, collective.target.dims, strict=True)):
        fits = set(source) | axes == set(target) if index == dim else source == target
        if not fits:
            raise _disagree(collective, f"axes {sorted(axes)} are scattered over dimension {dim}")


def _ends(collective: Collective) -> tuple[int, int]:
    dims = collective.attributes["tensor_axis"]
    if len(dims) != 2 or dims[0] == dims[1]:
        raise ShardingError(
            f"tensor_axis {list(dims)} of mesh.all_to_all does not name two dimensions",
            remedy="give the dimension that is gathered and the one that is split",
        )
    return _dimension(collective, dims[0]), _dimension(collective, dims[1])


def _check_exchange(collective: Collective) -> None:
    axes = set(collective.attributes["mesh_axis"])
    start, end = _ends(collective)
    expected = [set(dim) for dim in collective.source.dims]
    if not axes <= expected[start]:
        raise _disagree(collective, f"axes {sorted(axes)} do not split dimension {start}")
    expected[start] -= axes
    expected[end] |= axes
    if expected != [set(dim) for dim in collective.target.dims]:
        raise _disagree(collective, f"axes {sorted(axes)} move from dimension {start} to dimension {end}")
    _same_partial(collective)


def _check_permute(collective: Collective) -> None:
    axis = collective.attributes.get("mesh_axis")
    if axis is None:
        return
    if (collective.source.dims, collective.source.partial) != (collective.target.dims, collective.target.partial):
        raise _disagree(collective, f"neighbours along axis {axis} exchange shards of one layout")
    if axis not in collective.source.axes:
        raise _disagree(collective, f"neighbours along axis {axis} exchange shards, which splits no dimension")


def _permuted(before: Layout, after: Layout) -> tuple[Move, ...]:
    return () if before == after else (Move("collective_permute", after),)


def _gather_moves(collective: Collective) -> tuple[Move, ...]:
    gathered = _lists(collective, "mesh_axis")
    pairs = list(zip(collective.source.dims, gathered, collective.target.dims, strict=True))
    axes = tuple(tuple(axis for axis in source if axis in set(taken)) for source, taken, _ in pairs)
    ready = replace(collective.source, dims=tuple(kept + last for (_, _, kept), last in zip(pairs, axes, strict=True)))
    return (*_permuted(collective.source, ready), Move("all_gather", collective.target, axes))


def _grown(collective: Collective, added: Lists) -> tuple[Lists, Layout]:
    """Added axes in the order in which the result has them, and the layout with them at the minor end."""
    ordered = tuple(
        tuple(axis for axis in target if axis in set(axes))
        for axes, target in zip(added, collective.target.dims, strict=True)
    )
    dims = tuple(source + axes for source, axes in zip(collective.source.dims, ordered, strict=True))
    return ordered, replace(collective.target, dims=dims)


def _split_moves(collective: Collective) -> tuple[Move, ...]:
    axes, grown = _grown(collective, _split_axes(collective))
    return (Move("all_slice", grown, axes), *_permuted(grown, collective.target))


def _reduce_moves(collective: Collective) -> tuple[Move, ...]:
    return (Move("all_reduce", collective.target, partial=collective.attributes["mesh_axis"]),)


def _scatter_moves(collective: Collective) -> tuple[Move, ...]:
    dim = collective.attributes["tensor_axis"]
    added = tuple(tuple(collective.attributes["mesh_axis"]) if index == dim else () for index in range(collective.rank))
    axes, grown = _grown(collective, added)
    return (Move("reduce_scatter", grown, axes), *_permuted(grown, collective.target))


def _exchange_moves(collective: Collective) -> tuple[Move, ...]:
    start, end = _ends(collective)
    axes = tuple(axis for axis in collective.target.dims[end] if axis in collective.attributes["mesh_axis"])
    dims = list(collective.source.dims)
    dims[start] = collective.target.dims[start] + axes
    ready = replace(collective.source, dims=tuple(dims))
    dims[start] = collective.target.dims[start]
    dims[end] = collective.source.dims[end] + axes
    moved = replace(collective.target, dims=tuple(dims))
    exchange = Move("all_to_all", moved, (axes,), between=(start, end))
    return (*_permuted(collective.source, ready), exchange, *_permuted(moved, collective.target))


def _permute_moves(collective: Collective) -> tuple[Move, ...]:
    axis = collective.attributes.get("mesh_axis")
    if axis is None:
        return (Move("collective_permute", collective.target),)
    if axis in collective.source.partial:  # contributions to a sum change places
        return ()
    axes = tuple((axis,) if axis in held else () for held in collective.source.dims)
    dim = axes.index((axis,))
    if collective.source.dims[dim][0] != axis:
        raise ShardingError(
            f"neighbours along axis {axis} exchange shards of dimension {dim}, which axis"
            f" {collective.source.dims[dim][0]} splits first",
            cause="each part along that axis would be rolled by itself, and no op on the whole tensor does that",
            remedy="take the axis that is first in its list, or write the exchange within the program for one device",
        )
    return (Move("roll", collective.target, axes),)


COLLECTIVES: Mapping[str, Callable[[Collective], None]] = {
    "all_gather": _check_gather,
    "all_reduce": _check_reduce,
    "reduce_scatter": _check_scatter,
    "all_to_all": _check_exchange,
    "local_split": _check_split,
    "collective_permute": _check_permute,
}
"""The collectives by name, with their checks."""

_MOVES: Mapping[str, Callable[[Collective], tuple[Move, ...]]] = {
    "all_gather": _gather_moves,
    "all_reduce": _reduce_moves,
    "reduce_scatter": _scatter_moves,
    "all_to_all": _exchange_moves,
    "local_split": _split_moves,
    "collective_permute": _permute_moves,
}


def spelled(source: Layout, move: Move) -> tuple[Collective, ...]:
    """The collectives of the RFC, one after another, that an sdy collective on a tensor laid out as `source` is."""
    if move.name == "reduce_scatter":
        return _scatters(source, move)
    attributes: dict[str, Any] = {}
    name = move.name
    if name == "all_gather":
        attributes = {"mesh_axis": trimmed(move.axes)}
    elif name == "all_slice":
        name, attributes = "local_split", {"sharding": trimmed(move.axes)}
    elif name == "all_reduce":
        attributes = {"mesh_axis": move.partial, "reduction": "sum"}
    elif name == "all_to_all":
        attributes = {"mesh_axis": move.axes[0], "tensor_axis": move.between}
    return (Collective(name, source, move.target, attributes),)


def _scatters(source: Layout, move: Move) -> tuple[Collective, ...]:
    collectives: list[Collective] = []
    for dim, axes in enumerate(move.axes):
        if axes:
            dims = (*source.dims[:dim], source.dims[dim] + axes, *source.dims[dim + 1 :])
            target = Layout(source.symbol, dims, tuple(axis for axis in source.partial if axis not in axes))
            attributes = {"mesh_axis": axes, "reduction": "sum", "tensor_axis": dim}
            collectives.append(Collective("reduce_scatter", source, target, attributes))
            source = target
    return tuple(collectives)
