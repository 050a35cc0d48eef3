"""Small per-device programs in StableHLO text."""

from __future__ import annotations

from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read

MESH = '  sdy.mesh @mesh = <["x"=2, "y"=4]>\n'
HANDLE = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"


def graph(body: str, *, mesh: str = MESH) -> Graph:
    """A module of a mesh and `body`."""
    return read(load_module(f"module attributes {{mhlo.num_partitions = 8 : i32}} {{\n{mesh}{body}\n}}\n"))


def along(*axes: str) -> str:
    """Replica groups along mesh axes: `along("x")`, `along('y:(1)2')`."""
    refs = []
    for axis in axes:
        name, _, part = axis.partition(":")
        info = f", sub_axis_info = {part}" if part else ""
        refs.append(f'#stablehlo.axis_ref<name = "{name}"{info}>')
    return f"#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{', '.join(refs)}]>"


def all_reduce(result: str, operand: str, type: str, groups: str, handle: str = f", {HANDLE}") -> str:
    """An `all_reduce` that sums."""
    return f"""
    {result} = "stablehlo.all_reduce"({operand}) <{{replica_groups = {groups}{handle}}}> ({{
    ^bb0(%left: tensor<f32>, %right: tensor<f32>):
      %sum = stablehlo.add %left, %right : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }}) : ({type}) -> {type}"""


def all_gather(result: str, operand: str, types: str, dim: int, groups: str) -> str:
    """An `all_gather` of dimension `dim`."""
    attributes = f"all_gather_dim = {dim} : i64, replica_groups = {groups}, {HANDLE}"
    return f'\n    {result} = "stablehlo.all_gather"({operand}) <{{{attributes}}}> : {types}'
