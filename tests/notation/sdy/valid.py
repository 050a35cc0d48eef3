"""Valid modules with every op and attribute of the sdy dialect, for tests that make them wrong."""

from __future__ import annotations

__all__ = ["VALID"]

_MESHES = """\
sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
sdy.mesh @order = <["a"=2, "b"=2, "c"=4], device_ids=[15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]>
sdy.mesh @one = <[], device_ids=[3]>
"""

_COLLECTIVES = """\
func.func @main(%x: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a", "b"}, {}, {}]>})
    -> tensor<8x8x8xf32> {
  %0 = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@mesh, [{"a"}, {}, {}]> : tensor<8x8x8xf32>
  %1 = sdy.all_slice [{}, {"c":(1)2}, {"b"}] %0 out_sharding=<@mesh, [{"a"}, {"c":(1)2}, {"b"}]> : tensor<8x8x8xf32>
  %2 = sdy.all_to_all [{"a"}: 0->1] %1 out_sharding=<@mesh, [{}, {"c":(1)2, "a"}, {"b"}]> : tensor<8x8x8xf32>
  %3 = sdy.collective_permute %2 out_sharding=<@order, [{}, {"a", "c":(1)2}, {"b"}]> : tensor<8x8x8xf32>
  %4 = sdy.reshard %3 <@mesh, [{"a"}, {}, {}], unreduced={"b", "c"}> : tensor<8x8x8xf32>
  %5 = sdy.all_reduce {"c"} %4 out_sharding=<@mesh, [{"a"}, {}, {}], unreduced={"b"}> : tensor<8x8x8xf32>
  %6 = sdy.reduce_scatter [{}, {"b"}, {}] %5 out_sharding=<@mesh, [{"a"}, {"b"}, {}]> : tensor<8x8x8xf32>
  return %6 : tensor<8x8x8xf32>
}
"""

_COMPUTATIONS = """\
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}p1, {"c":(2)2, ?}], replicated={"b"}>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {}], unreduced={"c"}>}) {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"a"}, {?}]>] out_shardings=[<@mesh, [{"a"}, {}]>]
      manual_axes={"a"} (%q: tensor<4x8xf32>) {
    %10 = sdy.sharding_constraint %q <@mesh, [{"b"}, {?}p2]> : tensor<4x8xf32>
    sdy.return %10 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.named_computation<"f">(%0) in_shardings=[<@mesh, [{}, {"b"}]>]
      out_shardings=[<@mesh, [{?}, {"b"}]>] (%q: tensor<8x8xf32>) {
    %11 = stablehlo.tanh %q : tensor<8x8xf32>
    sdy.return %11 : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.propagation_barrier %1 allowed_direction=FORWARD : tensor<8x8xf32>
  sdy.sharding_group %2 group_id=4 : tensor<8x8xf32>
  %3 = stablehlo.optimization_barrier %2 : tensor<8x8xf32>
  %4 = sdy.data_flow_edge %3 sharding=<@mesh, [{"a"}, {?}]> : tensor<8x8xf32>
  sdy.sharding_group %4 group_id=4 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
"""

_RULES = """\
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x4xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.custom_call @f(%x, %y) {
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk], [l, m])->([i, l]) {i=8, j=2, k=4, l=8, m=4}
        reduction={m} need_replication={j} permutation={k} blocked_propagation={l}, custom>
  } : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %1 = stablehlo.add %0, %x {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}, {?}]>]>} : tensor<8x8xf32>
  %2 = stablehlo.tanh %1 {sdy.sharding = #sdy.sharding_per_value<[<mesh<["x"=16]>, [{"x":(1)4}, {}]>]>} : tensor<8x8xf32>
  stablehlo.custom_call @g(%1) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<8x8xf32>) -> ()
  %3:2 = "stablehlo.optimization_barrier"(%1, %x) {
    sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"b"}, {}]>, <@mesh, [{}, {"b"}]>]>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  return %3#0 : tensor<8x8xf32>
}
"""

VALID = tuple(_MESHES + text for text in (_COLLECTIVES, _COMPUTATIONS, _RULES))
