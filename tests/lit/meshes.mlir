// RUN: shardwright-opt %s -sdy-inline-meshes | FileCheck %s --check-prefix=INLINED
// RUN: shardwright-opt %s -sdy-inline-meshes -sdy-lift-inlined-meshes | FileCheck %s --check-prefix=LIFTED

// INLINED-NOT: sdy.mesh @
// LIFTED: sdy.mesh @[[MESH:[a-z_0-9]+]] = <["x"=2, "y"=4]>
// LIFTED-NOT: sdy.mesh @
sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @unused = <["z"=8]>
sdy.mesh @same = <["x"=2, "y"=4]>

// INLINED-LABEL: func @main(
// INLINED-SAME:      %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}]>},
// INLINED-SAME:      %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"y", ?}]>})
// LIFTED: func.func @main(
// LIFTED-SAME:      %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@[[MESH]], [{"x"}]>},
// LIFTED-SAME:      %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@[[MESH]], [{"y", ?}]>})
func.func @main(
    %arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
    %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@same, [{"y", ?}]>}) -> tensor<8xf32> {
  // INLINED-NEXT: sdy.sharding_constraint %arg0 <mesh<["x"=2, "y"=4]>, [{"x", "y"}]>
  // LIFTED-NEXT: sdy.sharding_constraint %arg0 <@[[MESH]], [{"x", "y"}]>
  %0 = sdy.sharding_constraint %arg0 <@mesh, [{"x", "y"}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
