sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.named_computation<"f">(%arg0) (%x: tensor<8xf32>) {
    %y = sdy.sharding_constraint %x <@mesh, [{"a"}]> : tensor<8xf32>
    %z = stablehlo.abs %y : tensor<8xf32>
    sdy.return %z : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"a"}]> : tensor<8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"b"}]>] out_shardings=[<@mesh, [{"a"}]>] manual_axes={} (%x: tensor<8xf32>) {
    sdy.return %x : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
