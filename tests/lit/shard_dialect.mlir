// RUN: shardwright-opt %s --pass-pipeline='builtin.module(func.func(sharding-propagation{traversal=forward}))' | FileCheck %s
// RUN: shardwright-opt < %s -sharding-propagation=traversal=forward -mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

shard.grid @mesh(shape = 2x4)

// CHECK-LABEL: func @chain
// CHECK-SAME:      (%[[ARG:.*]]: tensor<8x16xf32>)
func.func @chain(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: %[[X:.*]] = stablehlo.tanh %{{.*}} : tensor<8x16xf32>
  // CHECK: %[[S:.*]] = shard.sharding @mesh split_axes = {{\[\[}}0], [1]] : !shard.sharding
  // CHECK-NEXT: %[[Y:.*]] = shard.shard %[[X]] to %[[S]] : tensor<8x16xf32>
  // CHECK-NEXT: return %[[Y]]
  // GENERIC: "stablehlo.tanh"
  // GENERIC-NEXT: "shard.sharding"()
  // GENERIC-SAME: split_axes = #shard<axisarray{{\[\[}}0], [1]]>
  %sharding = shard.sharding @mesh split_axes = [[0], [1]] : !shard.sharding
  %0 = shard.shard %arg0 to %sharding : tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
