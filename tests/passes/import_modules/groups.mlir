sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}, %arg1: tensor<8xf32>, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", ?}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  sdy.sharding_group %arg0 group_id=9 : tensor<8xf32>
  sdy.sharding_group %arg1 group_id=9 : tensor<8xf32>
  %0 = stablehlo.add %arg0, %arg1 : tensor<8xf32>
  sdy.sharding_group %0 group_id=4 : tensor<8xf32>
  sdy.sharding_group %arg2 group_id=4 : tensor<8xf32>
  sdy.sharding_group %0 group_id=4 : tensor<8xf32>
  %1 = stablehlo.add %arg2, %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>]>} : tensor<8xf32>
  sdy.sharding_group %1 group_id=2 : tensor<8xf32>
  sdy.sharding_group %0 group_id=2 : tensor<8xf32>
  %2 = stablehlo.abs %1 : tensor<8xf32>
  sdy.sharding_group %2 group_id=7 : tensor<8xf32>
  %w = stablehlo.optimization_barrier %2 : tensor<8xf32>
  sdy.sharding_group %w group_id=9 : tensor<8xf32>
  return %1, %w: tensor<8xf32>, tensor<8xf32>
}
