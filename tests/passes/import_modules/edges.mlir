sdy.mesh @mesh = <["a"=2, "b"=2]>

func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}, %t: !stablehlo.token) -> tensor<8xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%x = %arg0, %i = %c) : tensor<8xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>, <@mesh, []>]>}
  cond {
    %p = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %y = stablehlo.add %x, %x : tensor<8xf32>
    %k:2 = stablehlo.optimization_barrier %y, %t : tensor<8xf32>, !stablehlo.token
    stablehlo.return %k#0, %i : tensor<8xf32>, tensor<i32>
  }
  %1 = sdy.manual_computation(%0#0) in_shardings=[<@mesh, [{"a", "b"}]>] out_shardings=[<@mesh, [{"a", ?}]>] manual_axes={"a"} (%b: tensor<4xf32>) {
    %2 = sdy.named_computation<"n">(%b) in_shardings=[<@mesh, [{?}]>] out_shardings=[<@mesh, [{"b"}]>] (%arg1: tensor<4xf32>) {
      sdy.return %arg1 : tensor<4xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "stablehlo.case"(%c) ({
    stablehlo.return %1 : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %4 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>]>} %1 : tensor<8xf32>
  %pp = stablehlo.constant dense<true> : tensor<i1>
  %5 = "stablehlo.if"(%pp) ({ stablehlo.return %4 : tensor<8xf32>
 }, { stablehlo.return %4 : tensor<8xf32> }) : (tensor<i1>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
