"""What the collectives of the `sdy` dialect do to shardings, for checking the sharding that each one states.

    >>> mesh = Mesh(x=2, y=4)
    >>> before = TensorSharding.of(mesh, [["x"]], partial=["y"], kind="max")
    >>> check_collective("all_reduce", 'max {"y"}', before, TensorSharding.of(mesh, [["x"]]))

Source: the sdy dialect reference (AllGatherOp, AllReduceOp, AllSliceOp, AllToAllOp, CollectivePermuteOp,
ReduceScatterOp).
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.ir.context import reduction_kinds
from shardwright.mesh import Axes, AxisRef, Mesh, axes_size, merge_axes, subtract_axes
from shardwright.notation.sdy.sharding import parse_axes, parse_axis_lists, parse_moves, print_axes
from shardwright.sharding import Partial, TensorSharding

__all__ = ["check_collective", "check_partial", "combining_kind", "print_reduction", "reduced_axes"]

_KIND = re.compile(r"\s*([a-z]\w*)?\s*")


def check_collective(name: str, parameters: str, before: TensorSharding, after: TensorSharding) -> None:
    """Check that collective `name` (`all_reduce`) takes `before` to `after`; `parameters` is its text: `max {"x"}`.

    Raises:
        ShardingError: another layout would result, the unreduced axes would not be those, or the kind is another one.
    """
    head = _KIND.match(parameters)
    kind = (head[1] if head else None) or "sum"
    rest = parameters[head.end() :] if head else parameters
    reduced = reduced_axes(name, rest, before.mesh)
    for partial in before.partial:
        if partial.kind != kind and any(partial.axis.overlaps(axis) for axis in reduced):
            raise ShardingError(
                f"a reduction by {kind} of a tensor that is unreduced by {partial.kind}",
                cause=f"the operand is {before!r}",
                remedy=f"reduce by {partial.kind}",
            )
    _check_dims(name, rest, before, after)
    check_partial(reduced, before, after)


def check_partial(reduced: Axes, before: TensorSharding, after: TensorSharding) -> None:
    """Check that `after` is unreduced along what `before` is, without the axes `reduced`.

    Raises:
        ShardingError: it is not.
    """
    left = [
        Partial(rest, partial.kind) for partial in before.partial for rest in subtract_axes([partial.axis], reduced)
    ]
    expected, stated = _by_kind(tuple(left), before.mesh), _by_kind(after.partial, after.mesh)
    if expected == stated:
        return
    lost = not set(stated) <= set(expected) or len(left) < len(after.partial)
    raise ShardingError(
        f"the result is unreduced along {_said(stated, after.mesh)}, not {_said(expected, before.mesh)}",
        cause="a collective leaves unreduced axes as they are, but for those that it reduces",
        remedy="take them out of out_sharding"
        if lost
        else "state them in out_sharding, or combine them by an all_reduce",
    )


def reduced_axes(name: str, text: str, mesh: Mesh) -> Axes:
    """The axes along which collective `name` combines contributions; `text` is its lists of axes."""
    if name == "all_reduce":
        return parse_axes(text, mesh)
    return tuple(axis for axes in parse_axis_lists(text, mesh) for axis in axes) if name == "reduce_scatter" else ()


def combining_kind(reduction: str | None, before: TensorSharding, axes: Axes) -> str:
    """The kind by which a collective combines a tensor along `axes`, its attribute `reduction_op` being `reduction`.

    The sharding says it where the tensor is unreduced: a sum is no attribute, and older versions of sdy have none.

    Raises:
        ShardingError: the tensor is unreduced by several kinds, or by another than the attribute says.
    """
    kinds = {partial.kind for partial in before.partial if any(partial.axis.overlaps(axis) for axis in axes)}
    if reduction:
        kinds.add(reduction_kinds()[int(reduction.split()[0])])  # 1 : i32
    if len(kinds) > 1:
        raise ShardingError(f"one collective cannot combine contributions by {' and '.join(sorted(kinds))}")
    return kinds.pop() if kinds else "sum"


def print_reduction(kind: str) -> str:
    """Attribute `reduction_op` of a collective that combines by `kind`, one of `reduction_kinds()`."""
    return f"{reduction_kinds().index(kind)} : i32"


def _by_kind(partial: tuple[Partial, ...], mesh: Mesh) -> dict[str, Axes]:
    kinds = sorted({p.kind for p in partial})
    return {kind: mesh.in_order(p.axis for p in partial if p.kind == kind) for kind in kinds}


def _said(kinds: dict[str, Axes], mesh: Mesh) -> str:
    parts = [f"{'' if kind == 'sum' else kind + ' '}{print_axes(axes, mesh)}" for kind, axes in kinds.items()]
    return " and ".join(parts) or "no axis"


def _check_dims(name: str, text: str, before: TensorSharding, after: TensorSharding) -> None:
    if name == "collective_permute":
        fits = [axes_size(axes) for axes in before.axes] == [axes_size(axes) for axes in after.axes]
    else:
        fits = _after_gathers(name, text, before, after)
    if not fits:
        raise ShardingError(
            f"{name} {text} does not take {before!r} to {after!r}".replace("  ", " "),
            cause="out_sharding must be what the operand's sharding becomes by the collective",
            remedy="correct out_sharding, or the axes",
        )


def _after_gathers(name: str, text: str, before: TensorSharding, after: TensorSharding) -> bool:
    """Whether both are the same once the axes that one of them has more are written to the other."""
    rank = before.rank
    more_before: list[tuple[AxisRef, ...]] = [()] * rank
    more_after: list[tuple[AxisRef, ...]] = [()] * rank
    if name in ("all_gather", "all_slice", "reduce_scatter"):
        lists = list(parse_axis_lists(text, before.mesh))
        if len(lists) != rank:
            return False
        if name == "all_gather":
            more_after = lists
        else:
            more_before = lists
    elif name == "all_to_all":
        for axes, source, target in parse_moves(text, before.mesh):
            if max(source, target) >= rank:
                return False
            more_after[source] = axes
            more_before[target] = axes
    left = [merge_axes((*axes, *more)) for axes, more in zip(before.axes, more_before, strict=True)]
    right = [merge_axes((*axes, *more)) for axes, more in zip(after.axes, more_after, strict=False)]
    return left == right
