"""The collectives of the `sdy` dialect: the steps they take, read and printed, and checked.

    >>> mesh = Mesh(x=2, y=4)
    >>> print_step(AllReduce((mesh.axis("y"),)), None, mesh)
    {'reduction_axes': '#sdy<axis_ref_list{"y"}>'}
    >>> before = TensorSharding.of(mesh, [["x"]], partial=["y"], kind="max")
    >>> check_collective("all_reduce", 'max {"y"}', before, TensorSharding.of(mesh, [["x"]]))

Source: the sdy dialect reference (AllGatherOp, AllReduceOp, AllSliceOp, AllToAllOp, CollectivePermuteOp,
ReduceScatterOp, ReplicatedToUnreducedOp, ShardedToUnreducedOp).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, NamedTuple

from shardwright.axes import Axes, AxisRef, axes_size, merge_axes, overlaps_any, subtract_axes
from shardwright.errors import ShardingError
from shardwright.ir.context import reduction_kinds
from shardwright.ir.ops import STEPS
from shardwright.mesh import Mesh
from shardwright.notation.sdy.attributes import print_axis_list_attribute, print_axis_lists_attribute, print_moves
from shardwright.notation.sdy.sharding import has_kinds_of, parse_axes, parse_axis_lists, parse_moves, print_axes
from shardwright.sharding import Partial, TensorSharding
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Step,
)

__all__ = ["check_collective", "check_partial", "parse_step", "print_step", "reduced_axes"]

_KIND = re.compile(r"\s*([a-z]\w*)?\s*")
_REDUCTION = "reduction_op"


class _AxesForm(NamedTuple):
    """How the attribute is read and printed in which an op says along which axes it takes its step."""

    parse: Callable[[str, Mesh], Any]
    print: Callable[[Any, Mesh], str]


_FORMS = {
    "Axes": _AxesForm(parse_axes, print_axis_list_attribute),
    "tuple[Axes, ...]": _AxesForm(parse_axis_lists, print_axis_lists_attribute),
    "tuple[tuple[Axes, int, int], ...]": _AxesForm(parse_moves, print_moves),
}
"""By the type of a step's first field, which is what the attribute holds."""


def _form(step: type[Any]) -> _AxesForm:
    return _FORMS[str(fields(step)[0].type)]


def parse_step(
    name: str, attributes: tuple[tuple[str, str], ...], before: TensorSharding | None, mesh: Mesh
) -> tuple[Step | None, tuple[tuple[str, str], ...]]:
    """The step that op `name` (`sdy.all_gather`) takes, as its attributes say, and the attributes beside it.

    A `collective_permute` says no step. The kind of a reduction is what its attribute says; where that is a sum, or is
    missing, as in older versions of sdy, the one by which its operand, which lies as `before` says, is partial: a kind
    that the installed sdy lacks is said there alone.
    """
    kind = STEPS[name]
    if not kind.attribute:
        return None, attributes
    texts = dict(attributes)
    step: Step = kind(_form(kind).parse(texts.pop(kind.attribute), mesh))
    reduction = texts.pop(_REDUCTION, None)
    if isinstance(step, AllReduce | ReduceScatter):
        stated = reduction_kinds()[int(reduction.split()[0])] if reduction else "sum"  # 1 : i32
        step = replace(step, kind=_awaited_kind(before, step.reduced) if stated == "sum" else stated)
    return step, tuple(texts.items())


def _awaited_kind(before: TensorSharding | None, axes: Axes) -> str:
    """The one kind by which a tensor is partial along `axes`; a sum where there is none, or are several."""
    partial = before.partial if before is not None else ()
    kinds = {p.kind for p in partial if overlaps_any(p.axis, axes)}
    return kinds.pop() if len(kinds) == 1 else "sum"


def print_step(step: Step, before: TensorSharding | None, mesh: Mesh) -> dict[str, str]:
    """The attributes, by name, in which an op says its step on `mesh`; its operand lies as `before` says.

    An operand that awaits a kind that the installed sdy lacks says so itself, in a carrier.
    """
    if not step.attribute:
        return {}
    held = getattr(step, fields(step)[0].name)
    texts = {step.attribute: _form(type(step)).print(held, mesh)}
    if isinstance(step, AllReduce | ReduceScatter) and step.kind != "sum" and (before is None or has_kinds_of(before)):
        texts[_REDUCTION] = f"{reduction_kinds().index(step.kind)} : i32"
    return texts


def reduced_axes(step: Step | None) -> Axes:
    """The axes along which a step combines contributions."""
    return step.reduced if isinstance(step, AllReduce | ReduceScatter) else ()


def check_collective(name: str, parameters: str, before: TensorSharding, after: TensorSharding) -> None:
    """Check that collective `name` (`all_reduce`) takes `before` to `after`; `parameters` is its text: `max {"x"}`.

    Raises:
        ShardingError: another layout would result, the unreduced axes would not be those, or the kind is another one.
    """
    head = _KIND.match(parameters)
    rest = parameters[head.end() :] if head else parameters
    kind = STEPS[f"sdy.{name}"]
    step: Step = kind(_form(kind).parse(rest, before.mesh)) if kind.attribute else CollectivePermute(after)
    if isinstance(step, AllReduce | ReduceScatter):
        step = replace(step, kind=(head and head[1]) or "sum")
        _check_kind(step, before)
    if not _fits(step, before, after):
        raise ShardingError(
            f"{name} {rest} does not take {before!r} to {after!r}".replace("  ", " "),
            cause="out_sharding must be what the operand's sharding becomes by the collective",
            remedy="correct out_sharding, or the axes",
        )
    check_partial(reduced_axes(step), before, after)


def _check_kind(step: AllReduce | ReduceScatter, before: TensorSharding) -> None:
    for partial in before.partial:
        if partial.kind != step.kind and overlaps_any(partial.axis, step.reduced):
            raise ShardingError(
                f"a reduction by {step.kind} of a tensor that is unreduced by {partial.kind}",
                cause=f"the operand is {before!r}",
                remedy=f"reduce by {partial.kind}",
            )


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
        f"the result is unreduced along {_spelled(stated, after.mesh)}, not {_spelled(expected, before.mesh)}",
        cause="a collective leaves unreduced axes as they are, but for those that it reduces",
        remedy="take them out of out_sharding"
        if lost
        else "state them in out_sharding, or combine them by an all_reduce",
    )


def _by_kind(partial: tuple[Partial, ...], mesh: Mesh) -> dict[str, Axes]:
    kinds = sorted({p.kind for p in partial})
    return {kind: mesh.in_order(p.axis for p in partial if p.kind == kind) for kind in kinds}


def _spelled(kinds: dict[str, Axes], mesh: Mesh) -> str:
    parts = [f"{'' if kind == 'sum' else kind + ' '}{print_axes(axes, mesh)}" for kind, axes in kinds.items()]
    return " and ".join(parts) or "no axis"


def _fits(step: Step, before: TensorSharding, after: TensorSharding) -> bool:
    """Whether dimensions are the same once the axes that one side has more are written to the other."""
    if isinstance(step, CollectivePermute):
        return [axes_size(axes) for axes in before.axes] == [axes_size(axes) for axes in after.axes]
    rank = before.rank
    more_before: list[tuple[AxisRef, ...]] = [()] * rank
    more_after: list[tuple[AxisRef, ...]] = [()] * rank
    if isinstance(step, AllToAll):
        for axes, source, target in step.moves:
            if max(source, target) >= rank:
                return False
            more_after[source] = axes
            more_before[target] = axes
    elif isinstance(step, AllGather | AllSlice | ReduceScatter):
        if len(step.axes) != rank:
            return False
        (more_after if isinstance(step, AllGather) else more_before)[:] = step.axes
    left = [merge_axes((*axes, *more)) for axes, more in zip(before.axes, more_before, strict=True)]
    right = [merge_axes((*axes, *more)) for axes, more in zip(after.axes, more_after, strict=False)]
    return left == right
