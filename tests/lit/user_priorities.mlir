// RUN: shardwright-opt %s -sdy-user-priority-propagate 2>&1 | FileCheck %s --check-prefix=USER
// RUN: shardwright-opt %s -sdy-op-priority-propagate 2>&1 | FileCheck %s --check-prefix=OP

sdy.mesh @mesh = <["a"=2, "b"=2]>

// Both operands want "a" in the result; priority 0 gets it, unless nobody asks for priorities.
// USER-LABEL: func @main(
// USER-SAME:      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"a", ?}]>}) {
// OP-LABEL: func @main(
// OP-SAME:      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", ?}, {?}]>}) {
func.func @main(
    %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}p1, {?}]>},
    %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"a"}p0]>}) -> tensor<8x8xf32> {
  // USER: stablehlo.dot_general
  // USER-SAME: {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"a", ?}]>]>}
  // OP: stablehlo.dot_general
  // OP-SAME: {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a", ?}, {?}]>]>}
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
