"""Steps of a reshard plan as ops of the `sdy` dialect."""

from __future__ import annotations

from functools import singledispatch

from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Axes, Mesh
from shardwright.notation.sdy.collectives import combining_kind, print_reduction
from shardwright.notation.sdy.sharding import (
    has_kinds_of,
    parse_axes,
    parse_axis_lists,
    parse_moves,
    print_axes,
    print_axis_lists,
)
from shardwright.sharding import TensorSharding
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Step,
    ToUnreduced,
)

__all__ = ["collective", "emit_steps", "step_of"]


def emit_steps(
    builder: Builder, value: int, sharding: TensorSharding, steps: tuple[Step, ...]
) -> list[tuple[TensorSharding, int]]:
    """Append one collective per step; each layout passed through and the value that has it."""
    passed: list[tuple[TensorSharding, int]] = []
    for step in steps:
        signature = collective(step, builder.type(value), sharding)
        sharding = step.apply(sharding)
        (value,) = builder.append(signature, (value,), (sharding,))
        passed.append((sharding, value))
    return passed


def collective(step: Step, type: TensorType, before: TensorSharding) -> Signature:
    """The sdy op that takes `step` on a tensor of global `type` that lies as `before` says."""
    name, attributes = _op(step, before.mesh)
    if isinstance(step, AllReduce | ReduceScatter) and step.kind != "sum" and has_kinds_of(before):
        attributes += (("reduction_op", print_reduction(step.kind)),)
    return Signature(name, attributes, (type,), (type,))


@singledispatch
def _op(step: Step, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    raise TypeError(f"no sdy op for {step!r}")


@_op.register
def _(step: AllSlice, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "sdy.all_slice", (("slicing_axes", _lists(step.axes, mesh)),)


@_op.register
def _(step: AllGather, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "sdy.all_gather", (("gathering_axes", _lists(step.axes, mesh)),)


@_op.register
def _(step: ReduceScatter, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "sdy.reduce_scatter", (("reduce_scatter_axes", _lists(step.axes, mesh)),)


@_op.register
def _(step: AllReduce, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "sdy.all_reduce", (("reduction_axes", f"#sdy<axis_ref_list{print_axes(step.axes, mesh)}>"),)


@_op.register
def _(step: CollectivePermute, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    return "sdy.collective_permute", ()


@_op.register
def _(step: AllToAll, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    moves = ", ".join(f"{print_axes(axes, mesh)}: {source}->{target}" for axes, source, target in step.moves)
    return "sdy.all_to_all", (("params", f"#sdy<all_to_all_param_list[{moves}]>"),)


@_op.register
def _(step: ToUnreduced, mesh: Mesh) -> tuple[str, tuple[tuple[str, str], ...]]:
    if step.kind != "sum":
        return "sdy.sharding_constraint", ()  # the one op whose sharding can be of a kind that jaxlib does not know
    return "sdy.replicated_to_unreduced", (("axes", f"#sdy<axis_ref_list{print_axes(step.axes, mesh)}>"),)


def _lists(lists: tuple[Axes, ...], mesh: Mesh) -> str:
    return f"#sdy<list_of_axis_ref_lists{print_axis_lists(lists, mesh)}>"


def step_of(signature: Signature, before: TensorSharding, after: TensorSharding) -> Step:
    """The step by which a collective of the sdy dialect takes a tensor from `before` to `after`.

    Raises:
        ShardingError: the op is not a collective, or combines by another kind than the tensor is partial by.
    """
    mesh = after.mesh
    reduction = signature.text("reduction_op")
    match signature.name:
        case "sdy.all_slice":
            return AllSlice(parse_axis_lists(signature.text("slicing_axes") or "", mesh))
        case "sdy.all_gather":
            return AllGather(parse_axis_lists(signature.text("gathering_axes") or "", mesh))
        case "sdy.reduce_scatter":
            lists = parse_axis_lists(signature.text("reduce_scatter_axes") or "", mesh)
            scattered = tuple(axis for axes in lists for axis in axes)
            return ReduceScatter(lists, combining_kind(reduction, before, scattered))
        case "sdy.all_reduce":
            axes = parse_axes(signature.text("reduction_axes") or "{}", mesh)
            return AllReduce(axes, combining_kind(reduction, before, axes))
        case "sdy.replicated_to_unreduced":
            return ToUnreduced(parse_axes(signature.text("axes") or "{}", mesh))
        case "sdy.sharding_constraint" if after.partial and not before.partial:
            return ToUnreduced(after.partial_axes, after.partial[0].kind)
        case "sdy.all_to_all":
            return AllToAll(parse_moves(signature.text("params") or "", mesh))
        case "sdy.collective_permute":
            return CollectivePermute(after)
    raise ShardingError(
        f"{signature.name} is not a collective",
        cause="an explicit program has collectives and local ops only",
        remedy="partition the program from its propagated form",
    )
