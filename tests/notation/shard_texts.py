"""Modules in upstream's `shard` dialect as MLIR prints them, and their conversion to sdy and back."""

from __future__ import annotations

from shardwright.ir.context import load_module, module_text
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.shard.dialect.tables import SHARD
from shardwright.notation.shard.modules import export_module, import_module

__all__ = ["ANNOTATED", "STRUCTURED", "exported", "imported", "in_module"]


def imported(text: str) -> str:
    """Custom or generic text of `shard` → text of sdy, which verifies."""
    module = load_module(to_generic(text, [SHARD], "program.mlir"), "program.mlir")
    import_module(module, "program.mlir")
    assert module.operation.verify()
    return module_text(module)


def exported(text: str) -> str:
    """Text of sdy → custom text of `shard`, which verifies."""
    module = load_module(text, "program.mlir")
    export_module(module, "program.mlir")
    assert module.operation.verify()
    return to_custom(module_text(module), [SHARD])


def in_module(body: str) -> str:
    """Text as MLIR prints it: inside `module`, indented."""
    return "module {\n" + "".join(f"  {line}\n" for line in body.strip().splitlines()) + "}\n"


ANNOTATED = in_module(
    """\
shard.grid @g(shape = 2x4)
func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<4x15xf32>, %arg2: tensor<f32>) -> (tensor<4x8xf32>, tensor<f32>) {
  %0 = shard.sharding @g split_axes = [[0], []] halo_sizes = [1, 2] : !shard.sharding
  %1 = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %2 = shard.sharding @g split_axes = [[]] : !shard.sharding
  %3 = shard.sharding @g split_axes = [[1], []] sharded_dims_offsets = [0, 1, 1, 1, 4] : !shard.sharding
  %4 = mesh.sharding @g split_axes = [[], []] partial = max [1] : !mesh.sharding
  %5 = shard.shard %arg0 to %0 : tensor<4x8xf32>
  %6 = shard.shard %arg1 to %1 : tensor<4x15xf32>
  %7 = shard.shard %arg2 to %2 : tensor<f32>
  %8 = stablehlo.negate %5 : tensor<4x8xf32>
  %9 = shard.shard %8 to %3 : tensor<4x8xf32>
  %10 = stablehlo.negate %9 : tensor<4x8xf32>
  %11 = shard.shard %10 to %1 {open = array<i64: 1>} : tensor<4x8xf32>
  %12 = shard.shard %11 to %4 annotate_for_users : tensor<4x8xf32>
  %13 = stablehlo.negate %12 : tensor<4x8xf32>
  %14 = shard.shard %13 to %1 annotate_for_users : tensor<4x8xf32>
  return %14, %7 : tensor<4x8xf32>, tensor<f32>
}"""
)

STRUCTURED = in_module(
    """\
shard.grid "private" @g(shape = 2x3) {axis_names = ["rows", "columns"]}
func.func private @callee(%arg0: tensor<6xf32> {user.note = 1 : i64}) -> tensor<6xf32> {
  %0 = shard.sharding @g split_axes = [[1]] : !shard.sharding
  %1 = shard.shard %arg0 to %0 : tensor<6xf32>
  return %1 : tensor<6xf32>
}
func.func @main(%arg0: tensor<6xf32>, %arg1: tensor<i1>) -> tensor<6xf32> attributes {user.flag} {
  %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %1 = shard.sharding @g split_axes = [[1, 0]] : !shard.sharding
  %2 = shard.sharding @g split_axes = [[]] : !shard.sharding
  %3 = call @callee(%arg0) : (tensor<6xf32>) -> tensor<6xf32>
  %4:2 = stablehlo.while(%iterArg = %3, %iterArg_0 = %arg1) : tensor<6xf32>, tensor<i1>
  cond {
    stablehlo.return %iterArg_0 : tensor<i1>
  } do {
    %7 = stablehlo.negate %iterArg {user.kept} : tensor<6xf32>
    %8 = shard.shard %7 to %1 : tensor<6xf32>
    %9 = shard.shard %8 to %2 annotate_for_users {open} : tensor<6xf32>
    stablehlo.return %9, %iterArg_0 : tensor<6xf32>, tensor<i1>
  }
  %5 = shard.shard %4#0 to %0 : tensor<6xf32>
  %6 = stablehlo.negate %5 : tensor<6xf32>
  return %6 : tensor<6xf32>
}"""
)
