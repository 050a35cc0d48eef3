sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = sdy.named_computation<"foo">(%arg0) (%arg1: tensor<8xf32>) {
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %1 = stablehlo.add %c, %arg1 : tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %c1 = stablehlo.constant dense<1.0> : tensor<8xf32>
  %2 = sdy.named_computation<"bar">(%c1) (%arg1: tensor<8xf32>) {
      %c = stablehlo.constant dense<1.0> : tensor<8xf32>
      %1 = stablehlo.add %c, %arg1 : tensor<8xf32>
      sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @f(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = call @f(%c1) : (tensor<8xf32>) -> tensor<8xf32>
  %5 = stablehlo.add %4, %arg0 : tensor<8xf32>
  %6 = stablehlo.add %4, %2 : tensor<8xf32>
  %7 = stablehlo.add %6, %arg0 : tensor<8xf32>
  %8 = stablehlo.add %7, %6 : tensor<8xf32>
  %9 = call @g(%8) : (tensor<8xf32>) -> tensor<8xf32>
  %10:2 = call @h() : () -> (tensor<8xf32>, tensor<8xf32>)
  %11 = stablehlo.add %10#0, %10#1 : tensor<8xf32>
  return %9, %11 : tensor<8xf32>, tensor<8xf32>
}
func.func private @h() -> (tensor<8xf32>, tensor<8xf32>) {
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  return %c, %c : tensor<8xf32>, tensor<8xf32>
}
func.func private @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.abs %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @g(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %1 = call @f(%c) : (tensor<8xf32>) -> tensor<8xf32>
  %0 = stablehlo.dot_general %arg0, %c, contracting_dims = [0] x [0] : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  return %1 : tensor<8xf32>
}
