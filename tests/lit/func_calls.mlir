// RUN: shardwright-opt %s -sdy-import-func-calls='add-data-flow-edges-on-named-computations=false' | FileCheck %s
// RUN: shardwright-opt %s -sdy-import-func-calls -sdy-basic-propagate -sdy-export-named-computations \
// RUN:   | FileCheck %s --check-prefix=EXPORTED

sdy.mesh @mesh = <["x"=2, "y"=2]>

// CHECK-LABEL: func @main
// CHECK-NOT:     call
// CHECK:         sdy.named_computation<"negated">(%arg0) (%[[ARG:.*]]: tensor<8xf32>) {
// CHECK-NEXT:      %[[NEGATED:.*]] = stablehlo.negate %[[ARG]]
// CHECK-NEXT:      sdy.return %[[NEGATED]]
// CHECK-NOT:   func.func
// EXPORTED-LABEL: func @main
// EXPORTED:         call @[[NAME:negated[_0-9]*]](%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", ?}]>]>}
// EXPORTED:       func.func private @[[NAME]](
// EXPORTED-SAME:    %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}]>}
func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = func.call @negated(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func private @negated(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.negate %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
