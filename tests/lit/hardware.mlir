// RUN: shardwright-opt %s -hardware=h100 -sdy-convert-global-to-local | FileCheck %s --check-prefix=H100
// RUN: shardwright-opt %s -hardware=bytes -sdy-convert-global-to-local | FileCheck %s --check-prefix=BYTES

sdy.mesh @mesh = <["x"=4, "y"=2]>

// Where to start a collective takes as long as to send megabytes, one all_reduce does it; by bytes, devices that would
// do the same share it.
//
// H100:     stablehlo.all_reduce
// H100-NOT: stablehlo.all_gather
// BYTES:    stablehlo.all_reduce
// BYTES:    stablehlo.all_gather
func.func @main(%x: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %w: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
