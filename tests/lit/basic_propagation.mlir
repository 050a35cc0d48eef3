// RUN: shardwright-opt %s -sdy-basic-propagate 2>&1 | FileCheck %s

sdy.mesh @mesh = <["data"=4, "model"=2]>

// CHECK-LABEL: func @chained_dots(
// CHECK-SAME:      %arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}, {?}]>},
// CHECK-SAME:      %arg1: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"model", ?}]>},
// CHECK-SAME:      %arg2: tensor<32x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", ?}, {?}]>})
// CHECK-SAME:      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}, {?}]>}) {
func.func @chained_dots(
    %arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}, {?}]>},
    %arg1: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"model", ?}]>},
    %arg2: tensor<32x8xf32>) -> tensor<8x8xf32> {
  // CHECK-NEXT: %[[HIDDEN:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
  // CHECK-SAME:   {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"data", ?}, {"model", ?}]>]>}
  // CHECK-NEXT: %[[OUT:.*]] = stablehlo.dot_general %[[HIDDEN]], %arg2, contracting_dims = [1] x [0]
  // CHECK-SAME:   {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"data", ?}, {?}]>]>}
  // CHECK-NEXT: return %[[OUT]]
  %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %1 = stablehlo.dot_general %0, %arg2, contracting_dims = [1] x [0]
    : (tensor<8x32xf32>, tensor<32x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

// Two axes want the same dimension: neither spreads.
// CHECK-LABEL: func @conflict(
// CHECK-SAME:      -> tensor<8x8xf32> {
func.func @conflict(
    %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", ?}, {?}]>},
    %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model", ?}, {?}]>}) -> tensor<8x8xf32> {
  // CHECK-NEXT: stablehlo.add %arg0, %arg1 : tensor<8x8xf32>
  // CHECK-NOT:  sdy.sharding
  %0 = stablehlo.add %arg0, %arg1 : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func @closed_dimension_stays(
// CHECK-SAME:      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model", ?}]>}) {
func.func @closed_dimension_stays(
    %arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {?}]>}) {
  // CHECK-NEXT: stablehlo.negate %arg0
  // CHECK-SAME:   #sdy.sharding_per_value<[<@mesh, [{"data", ?}, {"model", ?}]>]>
  %0 = stablehlo.negate %arg0 : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
