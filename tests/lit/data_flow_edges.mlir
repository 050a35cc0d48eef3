// RUN: shardwright-opt %s -sdy-add-data-flow-edges | FileCheck %s --check-prefix=ADDED
// RUN: shardwright-opt %s -sdy-add-data-flow-edges -sdy-basic-propagate -sdy-sink-data-flow-edges | FileCheck %s --check-prefix=SUNK

sdy.mesh @mesh = <["x"=2]>

// ADDED-LABEL: func @loop
// SUNK-LABEL: func @loop
func.func @loop(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}]>}) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %nine = stablehlo.constant dense<9> : tensor<i32>
  // ADDED: %[[WHILE:.*]]:2 = stablehlo.while
  // ADDED: } do {
  // ADDED: }
  // ADDED-DAG: %[[OUT:.*]] = sdy.data_flow_edge %[[WHILE]]#1 : tensor<8xf32>
  // ADDED-DAG: sdy.data_flow_edge %[[WHILE]]#0 : tensor<i32>
  // ADDED-NEXT: return %[[OUT]] : tensor<8xf32>
  // SUNK: %[[WHILE:.*]]:2 = stablehlo.while
  // SUNK-SAME: attributes {sdy.sharding = #sdy.sharding_per_value<[{{.*}}, <@mesh, [{"x", ?}]>]>}
  // SUNK-NOT: sdy.data_flow_edge
  // SUNK: return %[[WHILE]]#1 : tensor<8xf32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %arg0) : tensor<i32>, tensor<8xf32>
    cond {
      %1 = stablehlo.compare LT, %i, %nine : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %i, %one : tensor<i32>
      %2 = stablehlo.add %sum, %sum : tensor<8xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8xf32>
    }
  return %0#1 : tensor<8xf32>
}
