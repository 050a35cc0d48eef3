func.func @g(%arg0: tensor<4x16xf32>, %arg1: tensor<4x3x1xi32>) -> tensor<4x3xf32> {
  %i = stablehlo.iota dim = 0 : tensor<4x3x1xi32> loc("io")
  %unused = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.concatenate %i, %arg1, dim = 2 : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x2xi32>
  %2 = "stablehlo.gather"(%arg0, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}> {sdy.sharding = #sdy.sharding_per_value<[<mesh<["a"=2]>, [{"a"}, {}]>]>, foo = 1} : (tensor<4x16xf32>, tensor<4x3x2xi32>) -> tensor<4x3xf32> loc("ga")
  return %2 : tensor<4x3xf32>
}
