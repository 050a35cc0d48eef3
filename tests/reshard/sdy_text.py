"""A chain of steps as an `sdy` function, for the dialect's own verifier to check. Sums only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardwright.axes import AxisRef
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    ShardedToUnreduced,
    Step,
    ToUnreduced,
)


def module(shape: Sequence[int], source: TensorSharding, steps: Iterable[Step]) -> str:
    meshes = {source.mesh: "m0"}
    kind = f"tensor<{''.join(f'{size}x' for size in shape)}f32>"
    lines: list[str] = []
    layout = source
    for number, step in enumerate(steps):
        layout = step.apply(layout)
        meshes.setdefault(layout.mesh, "m1")
        operand = f"%{number - 1}" if number else "%arg0"
        out = sharding(layout, meshes[layout.mesh])
        lines.append(f"    %{number} = sdy.{op(step, source.mesh, operand)} out_sharding={out} : {kind}")
    result = f"%{len(lines) - 1}" if lines else "%arg0"
    head = f"  func.func @f(%arg0: {kind} {{sdy.sharding = #sdy.sharding{sharding(source, 'm0')}}}) -> {kind} {{"
    symbols = [f"  sdy.mesh @{symbol} = {mesh_text(mesh)}" for mesh, symbol in meshes.items()]
    return "\n".join(["module {", *symbols, head, *lines, f"    return {result} : {kind}", "  }", "}"])


def redistribution(shape: Sequence[int], source: TensorSharding, target: TensorSharding) -> str:
    """A program that gives its argument back in another layout of the same mesh."""
    kind = f"tensor<{''.join(f'{size}x' for size in shape)}f32>"
    before, after = (f"{{sdy.sharding = #sdy.sharding{sharding(layout, 'm')}}}" for layout in (source, target))
    return f"""sdy.mesh @m = {mesh_text(source.mesh)}
        func.func @main(%a: {kind} {before}) -> ({kind} {after}) {{ return %a : {kind} }}"""


def op(step: Step, mesh: Mesh, operand: str) -> str:
    match step:
        case AllSlice(axes):
            return f"all_slice {per_dim(axes, mesh)} {operand}"
        case AllGather(axes):
            return f"all_gather {per_dim(axes, mesh)} {operand}"
        case AllToAll(moves):
            text = ", ".join(f"{listed(axes, mesh)}: {source}->{target}" for axes, source, target in moves)
            return f"all_to_all [{text}] {operand}"
        case CollectivePermute():
            return f"collective_permute {operand}"
        case AllReduce(flat):
            return f"all_reduce {listed(flat, mesh)} {operand}"
        case ReduceScatter(axes):
            return f"reduce_scatter {per_dim(axes, mesh)} {operand}"
        case ToUnreduced(flat):
            return f"replicated_to_unreduced {listed(flat, mesh)} {operand}"
        case ShardedToUnreduced(axes):
            return f"sharded_to_unreduced {per_dim(axes, mesh)} {operand}"


def sharding(layout: TensorSharding, symbol: str) -> str:
    partial = f", unreduced={listed(layout.partial_axes, layout.mesh)}" if layout.partial else ""
    return f"<@{symbol}, {per_dim(layout.axes, layout.mesh)}{partial}>"


def per_dim(axes: Iterable[Sequence[AxisRef]], mesh: Mesh) -> str:
    return f"[{', '.join(listed(of_dim, mesh) for of_dim in axes)}]"


def listed(axes: Sequence[AxisRef], mesh: Mesh) -> str:
    return "{" + ", ".join(named(axis, mesh) for axis in axes) + "}"


def named(axis: AxisRef, mesh: Mesh) -> str:
    return f'"{axis.name}"' + ("" if mesh.is_full(axis) else f":({axis.pre}){axis.size}")


def mesh_text(mesh: Mesh) -> str:
    axes = ", ".join(f'"{name}"={size}' for name, size in mesh.axes)
    ids = f", device_ids={list(mesh.device_ids)}" if mesh.device_ids is not None else ""
    return f"<[{axes}]{ids}>"
