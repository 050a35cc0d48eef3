sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
func.func @foo(%arg0: tensor<8x8xf32>  {sdy.sharding = #sdy.sharding<@mesh, [{"b", ?}, {}]>}) -> (tensor<8x8xf32>) {
  %l = stablehlo.abs %arg0 : tensor<8x8xf32>
  %k3 = sdy.sharding_constraint %l <@mesh, [{}, {"b"}], replicated={"a"}> : tensor<8x8xf32>
  return %k3 : tensor<8x8xf32>
}
