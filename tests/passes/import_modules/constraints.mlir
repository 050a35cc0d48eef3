sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.add %arg0, %arg1 : tensor<8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"a"}]> : tensor<8xf32>
  %2 = sdy.sharding_constraint %arg0 <@mesh, [{"a", ?}]> : tensor<8xf32>
  %3 = sdy.sharding_constraint %arg1 <@mesh, [{"a"}]> : tensor<8xf32>
  %4 = sdy.sharding_constraint %arg1 <@mesh, [{"b"}]> : tensor<8xf32>
  %5 = sdy.sharding_constraint %arg2 <@mesh, [{"b"}]> : tensor<8xf32>
  %6 = stablehlo.abs %0 : tensor<8xf32>
  %7 = sdy.sharding_constraint %6 <@mesh, [{"b"}]> : tensor<8xf32>
  %8 = sdy.sharding_constraint %7 <@mesh, [{"a"}]> : tensor<8xf32>
  %9 = stablehlo.add %6, %8 : tensor<8xf32>
  %w:2 = stablehlo.optimization_barrier %9, %6 : tensor<8xf32>, tensor<8xf32>
  %e0 = sdy.data_flow_edge %w#0 : tensor<8xf32>
  %e1 = sdy.data_flow_edge %w#1 : tensor<8xf32>
  %u = stablehlo.abs %e0 : tensor<8xf32>
  %v = sdy.sharding_constraint %e0 <@mesh, [{"a"}]> : tensor<8xf32>
  %x = sdy.manual_computation(%e1, %u) in_shardings=[<@mesh, [{"a"}]>, <@mesh, [{"a"}], unreduced={"b"}>] out_shardings=[<@mesh, [{"a"}]>] manual_axes={"a"} (%b: tensor<4xf32>, %d: tensor<4xf32>) {
    %be = sdy.data_flow_edge %b : tensor<4xf32>
    %de = sdy.data_flow_edge %d : tensor<4xf32>
    %q = sdy.sharding_constraint %de <@mesh, [{"b"}]> : tensor<4xf32>
    %r = stablehlo.add %de, %q : tensor<4xf32>
    %r2 = stablehlo.multiply %r, %be : tensor<4xf32>
    sdy.return %r2 : tensor<4xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %xe = sdy.data_flow_edge %x : tensor<8xf32>
  %y = stablehlo.add %e1, %xe : tensor<8xf32>
  return %y, %v, %6 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
