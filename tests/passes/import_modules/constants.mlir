sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32>, %s: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<f32>) {
  %c = stablehlo.constant {foo = 1, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}]>]>} dense<1.0> : tensor<8xf32> loc("cst")
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  sdy.sharding_group %c group_id=3 : tensor<8xf32> loc("g1")
  sdy.sharding_group %c group_id=4 : tensor<8xf32>
  %i = stablehlo.iota dim = 0 : tensor<8xf32>
  %d = stablehlo.add %c, %c : tensor<8xf32>
  %e = stablehlo.add %d, %i : tensor<8xf32>
  sdy.sharding_group %e group_id=5 : tensor<8xf32> loc("g2")
  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %b2 = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.add %arg0, %e : tensor<8xf32>
  %2 = stablehlo.multiply %e, %e : tensor<8xf32>
  %3 = stablehlo.add %b, %b2 : tensor<8xf32>
  %4 = stablehlo.subtract %b, %b : tensor<8xf32>
  %5 = stablehlo.subtract %4, %2 : tensor<8xf32>
  %zz = stablehlo.add %z, %z : tensor<f32>
  %k = stablehlo.constant dense<0> : tensor<i32>
  %6 = "stablehlo.case"(%k) ({
    %7 = stablehlo.add %b, %e : tensor<8xf32>
    %q = stablehlo.constant dense<2.0> : tensor<8xf32>
    stablehlo.return %q : tensor<8xf32>
  }, {
    stablehlo.return %e : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %3, %c, %zz : tensor<8xf32>, tensor<8xf32>, tensor<f32>
}
