sdy.mesh @mesh = <["a"=2, "b"=1, "c"=4]>
sdy.mesh @mesh_1 = <["a"=2, "b"=1, "c"=4]>
sdy.mesh @other = <["x"=8]>
func.func @f(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=8]>, [{"z"}, {}]>}, %arg1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh_1, [{"a"}, {"b"}], replicated={"c"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[5]>, []>}, tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<[]>, [{}, {?}]>}) {
  %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["y"=8], device_ids=[1,0,2,3,4,5,6,7]>, [{"y"}, {}]>]>} : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %0 <mesh<["x"=8]>, [{"x"}, {}]> : tensor<8x8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"b", "a", ?}p1, {"c"}]>] out_shardings=[<@mesh_1, [{"a"}, {}]>] manual_axes={"b", "a"} (%b: tensor<4x8xf32>) {
    %9 = stablehlo.add %b, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh_1, [{"c"}, {}]>]>}: tensor<4x8xf32>
    sdy.return %9 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3:2 = stablehlo.custom_call @foo(%2) {sdy.sharding = #sdy.sharding_per_value<[<@mesh_1, [{"b"}p0, {?}]>, <mesh<["z"=8]>, [{"z"}, {}]>]>} : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  stablehlo.custom_call @bar(%2) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@mesh_1, []>]>} : (tensor<8x8xf32>) -> ()
  %4 = "stablehlo.all_reduce"(%2) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh_1, axes = [#stablehlo.axis_ref<name="a">]>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %3#0, %3#1 : tensor<8x8xf32>, tensor<8x8xf32>
}
