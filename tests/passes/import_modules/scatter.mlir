func.func @sc(%arg0: tensor<4x16xf32>, %arg1: tensor<4x3x1xi32>, %u: tensor<4x3xf32>) -> (tensor<4x16xf32>, tensor<i32>) {
  %i = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %c2 = stablehlo.constant dense<1> : tensor<i32>
  %c3 = stablehlo.add %c1, %c2 : tensor<i32>
  %1 = stablehlo.concatenate %i, %arg1, dim = 2 : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x2xi32>
  %2 = "stablehlo.scatter"(%arg0, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {bar} : (tensor<4x16xf32>, tensor<4x3x2xi32>, tensor<4x3xf32>) -> tensor<4x16xf32>
  return %2, %c3 : tensor<4x16xf32>, tensor<i32>
}
