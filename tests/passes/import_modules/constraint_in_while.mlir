sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%x = %arg0, %i = %c) : tensor<8xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %y = sdy.sharding_constraint %x <@mesh, [{"a"}]> : tensor<8xf32>
    stablehlo.return %y, %i : tensor<8xf32>, tensor<i32>
  }
  return %0#0 : tensor<8xf32>
}
