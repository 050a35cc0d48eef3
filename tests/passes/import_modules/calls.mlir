sdy.mesh @mesh = <["a"=2, "b"=2]>
sdy.mesh @mx = <[], device_ids=[3]>

func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}) -> tensor<8xf32> {
  %0 = call @foo(%arg0) {mhlo.frontend_attributes = {x = "1"}} : (tensor<8xf32>) -> tensor<8xf32> loc("c0")
  %1 = call @bar(%0) : (tensor<8xf32>) -> tensor<8xf32> loc("c1")
  %2:2 = call @baz(%1) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>, <@mesh, [{?}]>]>} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %3 = call @foo(%2#0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}]>]>, zzz} : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @bar(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) {
  %0 = call @foo(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32> loc("retbar")
}
func.func private @unused(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mx, []>}) {
  %2:2 = call @baz(%arg0) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  %0 = call @unused2(%2#1) : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func @unused2(%arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mx, []>}) {
  return %arg0 : tensor<8xf32>
}
func.func private @foo(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", ?}]>}) -> tensor<8xf32> attributes {some = 1} {
  %0 = stablehlo.abs %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32> loc("ret")
}
func.func private @baz(%arg0: tensor<8xf32>) -> (tensor<8xf32> , tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.case"(%c) ({
    %1 = func.call @foo(%arg0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = func.call @bar(%1) : (tensor<8xf32>) -> tensor<8xf32>
    stablehlo.return %2 : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}
