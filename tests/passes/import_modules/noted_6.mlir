sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
func.func @main(%arg0: tensor<8x8xf32>  {sdy.sharding = #sdy.sharding<@mesh, [{"b", ?}, {}]>}) -> (tensor<8x8xf32>) {
  %l = sdy.sharding_constraint %arg0 <@mesh, [{"b"}, {"a"}]> : tensor<8x8xf32>
  %m = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"a"}, {"b"}], replicated={"c":(1)2}>] out_shardings=[<@mesh, [{"a", "b"}, {}]>] manual_axes={"a"} (%arg3: tensor<4x8xf32>) {
    %q = sdy.data_flow_edge %arg3 sharding=<@mesh, [{}, {"b"}]> : tensor<4x8xf32>
    sdy.return %q : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %me = sdy.data_flow_edge %m sharding=<@mesh, [{"a","b"}, {}]> : tensor<8x8xf32>
  %k = sdy.sharding_constraint %me <@mesh, [{"b"}, {"a"}]> : tensor<8x8xf32>
  return %me : tensor<8x8xf32>
}
