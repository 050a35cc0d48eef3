// RUN: shardwright-opt %s --pass-pipeline='builtin.module(func.func(sdy-insert-explicit-reshards{enable-full-version=true}, sdy-reshard-to-collectives))' | FileCheck %s

sdy.mesh @mesh = <["x"=4, "y"=2]>

// CHECK-LABEL: func @contracted
func.func @contracted(
    %arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  // CHECK:      %[[PARTIAL:.*]] = stablehlo.dot_general %arg0, %arg1
  // CHECK-NEXT: %[[SUM:.*]] = sdy.all_reduce {"x"} %[[PARTIAL]] out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  // CHECK-NEXT: return %[[SUM]]
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
    {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}
    : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func @moved
// CHECK-NOT:   sdy.all_gather
func.func @moved(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  // CHECK:      %[[NEGATED:.*]] = stablehlo.negate %arg0
  // CHECK-NEXT: sdy.all_to_all [{"x"}: 0->1] %[[NEGATED]] out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x8xf32>
  %0 = stablehlo.negate %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
