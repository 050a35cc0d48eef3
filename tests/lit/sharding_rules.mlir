// RUN: shardwright-opt %s -sdy-populate-op-sharding-rules | FileCheck %s
// RUN: shardwright-opt %s --pass-pipeline='builtin.module(func.func(sdy-populate-op-sharding-rules,sdy-drop-sharding-rules))' \
// RUN:   | FileCheck %s --check-prefix=DROPPED

// CHECK-LABEL: func @dot(
// DROPPED-LABEL: func @dot(
func.func @dot(%arg0: tensor<4x8x16xf32>, %arg1: tensor<4x16x32xf32>) -> tensor<4x8x32xf32> {
  // CHECK: sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=4, j=8, k=32, l=16} reduction={l}>
  // DROPPED-NOT: sdy.sharding_rule
  %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>
  return %0 : tensor<4x8x32xf32>
}

// CHECK-LABEL: func @reshape(
func.func @reshape(%arg0: tensor<8x4xf32>) -> tensor<2x16xf32> {
  // CHECK: sdy.sharding_rule = #sdy.op_sharding_rule<([ij, k])->([i, jk]) {i=2, j=4, k=4}>
  %0 = stablehlo.reshape %arg0 : (tensor<8x4xf32>) -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}

// CHECK-LABEL: func @custom(
// DROPPED-LABEL: func @custom(
func.func @custom(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>
  // DROPPED: sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>
  %0 = stablehlo.custom_call @foo(%arg0)
    {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
