// RUN: shardwright-opt %s -optimize-collectives | FileCheck %s
// RUN: shardwright-opt %s -optimize-collectives=exact=true | FileCheck %s --check-prefix=EXACT
// RUN: shardwright-opt %s -optimize-dead-collectives | FileCheck %s --check-prefix=DEAD

sdy.mesh @mesh = <["x"=2, "y"=4]>

// CHECK-LABEL: func @main
// CHECK-COUNT-2: stablehlo.dot
// CHECK-NEXT:    stablehlo.subtract
// CHECK-NEXT:    sdy.reduce_scatter [{}, {"x"}]
// CHECK-NEXT:    return
// EXACT-LABEL:   func @main
// EXACT-COUNT-2: stablehlo.dot
// EXACT-NOT:     sdy.reduce_scatter
// EXACT:         stablehlo.concatenate
// EXACT-NEXT:    stablehlo.reduce_scatter
// EXACT-COUNT-2: stablehlo.slice
// EXACT:         stablehlo.subtract
// EXACT-NEXT:    return
// DEAD-LABEL:    func @main
// DEAD-COUNT-2:  sdy.all_reduce
func.func @main(
    %a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %c: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  %2 = stablehlo.dot %c, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}], unreduced={"x"}>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %3 = sdy.all_reduce {"x"} %2 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  %4 = stablehlo.subtract %1, %3 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : tensor<8x8xf32>
  %5 = sdy.all_slice [{}, {"x"}] %4 out_sharding=<@mesh, [{}, {"x"}]> : tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}
