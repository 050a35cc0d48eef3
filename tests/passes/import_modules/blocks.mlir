sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32>, %arg1: i1) -> (tensor<8xf32>, tensor<8xf32>) {
  %x = stablehlo.constant dense<2.0> : tensor<8xf32>
  cf.br ^bb2
^bb1:
  %0 = stablehlo.add %arg0, %c : tensor<8xf32>
  %1 = stablehlo.add %d, %x : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
^bb2:
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %d = stablehlo.negate %c : tensor<8xf32>
  %e = stablehlo.negate %d : tensor<8xf32>
  %f = stablehlo.multiply %arg0, %e : tensor<8xf32>
  sdy.sharding_group %f group_id=4 : tensor<8xf32>
  sdy.sharding_group %x group_id=5 : tensor<8xf32>
  cf.br ^bb1
}
