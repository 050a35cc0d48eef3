sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>

func.func @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b", ?}, {"c":(1)2}], replicated={"a"}>}, %arg1: tensor<8x8xf32>, %arg2: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}, tensor<8x8xf32>, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>}) {
  %0 = stablehlo.add %arg0, %arg1 : tensor<8x8xf32>
  %k = sdy.sharding_constraint %arg1 <@mesh, [{"b", "a"}, {"c":(1)2}]> : tensor<8x8xf32>
  %k2 = stablehlo.abs %k : tensor<8x8xf32>
  %3 = sdy.manual_computation(%k2, %arg2) in_shardings=[<@mesh, [{"a"}, {"b"}], replicated={"c":(1)2}>, <@mesh, [{"a"}, {}]>] out_shardings=[<@mesh, [{"a", "b"}, {}]>] manual_axes={"a"} (%arg3: tensor<4x8xf32>, %arg4: tensor<4x8xf32>) {
    %q = stablehlo.add %arg3, %arg4 : tensor<4x8xf32>
    %q2 = sdy.sharding_constraint %q <@mesh, [{}, {"c"}]> : tensor<4x8xf32>
    %q3 = stablehlo.abs %q : tensor<4x8xf32>
    %q4 = sdy.sharding_constraint %q3 <@mesh, [{"b"}, {"c"}]> : tensor<4x8xf32>
    %q5 = stablehlo.add %q3, %q2 : tensor<4x8xf32>
    sdy.return %q5 : tensor<4x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %l = stablehlo.abs %3 : tensor<8x8xf32>
  %k3 = sdy.sharding_constraint %l <@mesh, [{}, {"b"}], replicated={"a"}> : tensor<8x8xf32>
  %l2:2 = stablehlo.custom_call @foo(%3) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %k4 = sdy.sharding_constraint %l2#1 <@mesh, [{}, {"b"}]> : tensor<8x8xf32>
  return %k, %k3, %k4 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
