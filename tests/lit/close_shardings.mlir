// RUN: shardwright-opt %s -sdy-close-shardings | FileCheck %s
// RUN: shardwright-opt %s --sdy-sharding-constraint-to-reshard | FileCheck %s --check-prefix=RESHARD

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK-LABEL: func @main
// CHECK-SAME:      (%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}p1, {}]>})
// CHECK-NEXT:    sdy.sharding_constraint %arg0 <@mesh, [{}, {"y"}]> : tensor<8x8xf32>
// RESHARD-NOT: sdy.sharding_constraint
// RESHARD: sdy.reshard %arg0 <@mesh, [{?}, {"y", ?}]> : tensor<8x8xf32>
func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {?}], replicated={"y"}>})
    -> tensor<8x8xf32> {
  %0 = sdy.sharding_constraint %arg0 <@mesh, [{?}, {"y", ?}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
