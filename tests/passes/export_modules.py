"""Modules for the passes that follow propagation: each behaviour of theirs, said by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["EXPORT_MODULES", "call_module", "random_calls", "random_edges"]

MESHES = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @other = <["x"=2, "y"=4], device_ids=[1, 0, 2, 3, 4, 5, 6, 7]>
"""

_T = "tensor<8x8xf32>"

EDGES = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}, %b: tensor<i32>) -> tensor<8x8xf32> {
  %0:2 = stablehlo.while(%i = %a, %j = %b) : tensor<8x8xf32>, tensor<i32> attributes {foo="x"}
   cond {
     %c = stablehlo.constant dense<true> : tensor<i1>
     stablehlo.return %c : tensor<i1>
   } do {
     %n:2 = stablehlo.optimization_barrier %i, %i : tensor<8x8xf32>, tensor<8x8xf32>
     %e0 = sdy.data_flow_edge %n#0 sharding=<@mesh, [{"y"},{?}]> : tensor<8x8xf32>
     %e1 = sdy.data_flow_edge %n#1 sharding=<@mesh, [{"y"},{?}], replicated={"x"}> : tensor<8x8xf32>
     %s = stablehlo.add %e0, %e1 : tensor<8x8xf32>
     stablehlo.return %s, %j : tensor<8x8xf32>, tensor<i32>
   }
  %1 = sdy.data_flow_edge %0#0 sharding=<@mesh, [{"x",?}p1,{?}]> {sdy.sharding_origins={a="input: 0"},
     sdy.propagation_edges = #sdy.propagation_edges<[{step-2 = [{"y" = operand-0 -> [result-0]}]}]>} : tensor<8x8xf32>
  %2 = sdy.data_flow_edge %0#1 : tensor<i32>
  %3:2 = sdy.manual_computation(%1, %a) in_shardings=[<@mesh, [{"x"},{"y",?}]>, <@mesh, [{},{"x"}]>]
      out_shardings=[<@mesh, [{"x"},{?}]>, <@mesh, [{"x"},{?}]>] manual_axes={"x"}
      (%m: tensor<4x8xf32>, %o: tensor<8x4xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{"y",?}p3]> {sdy.sharding_origins={a="input: 0"}} : tensor<4x8xf32>
    %g = sdy.data_flow_edge %o : tensor<8x4xf32>
    %f = stablehlo.abs %e : tensor<4x8xf32>
    sdy.return %f, %f : tensor<4x8xf32>, tensor<4x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %4 = sdy.data_flow_edge %3#0 sharding=<@mesh, [{"x"},{"y",?}]> : tensor<8x8xf32>
  %5 = sdy.named_computation<"foo">(%4) (%m: tensor<8x8xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{"y",?}]> : tensor<8x8xf32>
    sdy.return %e : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = sdy.data_flow_edge %5 sharding=<@mesh, [{"x"},{"y",?}]> : tensor<8x8xf32>
  %7:2 = stablehlo.optimization_barrier %6, %a : tensor<8x8xf32>, tensor<8x8xf32>
  %8 = sdy.data_flow_edge %7#0 : tensor<8x8xf32>
  %9 = sdy.data_flow_edge %7#1 sharding=<@other, [{"x"},{}], replicated={"y"}> : tensor<8x8xf32>
  %10:2 = stablehlo.optimization_barrier {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{},{}]>, <@mesh,[{},{}]>]>}
      %8, %9 : tensor<8x8xf32>, tensor<8x8xf32>
  %11 = "stablehlo.case"(%b) ({
    stablehlo.return %10#0 : tensor<8x8xf32>
  }, {
    stablehlo.return %a : tensor<8x8xf32>
  }) : (tensor<i32>) -> tensor<8x8xf32>
  %12 = sdy.data_flow_edge %11 sharding=<@mesh, [{"x",?},{?}]> : tensor<8x8xf32>
  return %12 : tensor<8x8xf32>
}
"""

MANUAL_AXES = """
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x",?},{}], replicated={"y"}>]
      out_shardings=[<@mesh, [{"x"},{}], replicated={"y"}>] manual_axes={"x", "y"} (%m: tensor<4x8xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{}]> : tensor<4x8xf32>
    %f = stablehlo.abs %e : tensor<4x8xf32>
    sdy.return %f : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"y"},{?}], unreduced={"x"}>]
      out_shardings=[<@mesh, [{"y",?},{"x"}]>] manual_axes={"y"} (%m: tensor<2x8xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{?}], unreduced={"x"}> : tensor<2x8xf32>
    %f = stablehlo.abs %e : tensor<2x8xf32>
    sdy.return %f : tensor<2x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{?},{?}], replicated={"x", "y":(1)2}>]
      out_shardings=[<@mesh, [{?},{?}], replicated={"x"}>] manual_axes={"x"} (%m: tensor<8x8xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{"y":(2)2,?}], replicated={"y":(1)2}> : tensor<8x8xf32>
    %f = stablehlo.abs %e : tensor<8x8xf32>
    sdy.return %f : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = sdy.data_flow_edge %2 sharding=<@mesh, [{?},{?}], replicated={"x"}> : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
"""

NAMED = """
func.func @foo(%b: tensor<i32>) -> tensor<i32> { return %b : tensor<i32> }
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}) -> tensor<8x8xf32> {
  %0:2 = sdy.named_computation<"foo">(%a,%a) in_shardings=[<@mesh, [{"x"},{}]>, <@mesh, [{"x"},{?}]>]
      out_shardings=[<@mesh, [{"y"},{}]>, <@mesh, [{"x"},{?}]>]
      (%m: tensor<8x8xf32> loc("first"), %n: tensor<8x8xf32>) {
    %q = sdy.named_computation<"bar">(%m) (%x: tensor<8x8xf32>) {
      sdy.return %x : tensor<8x8xf32> loc("inner return")
    } {has="attr", mhlo.frontend_attributes={a="b"}} : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("inner")
    sdy.return %q, %n : tensor<8x8xf32>, tensor<8x8xf32>
  } : (tensor<8x8xf32>,tensor<8x8xf32>) -> (tensor<8x8xf32>,tensor<8x8xf32>)
  %1:2 = sdy.named_computation<"foo">(%a,%0#1) in_shardings=[<@mesh, [{"x"},{}]>, <@mesh, [{"x"},{?}]>]
      out_shardings=[<@mesh, [{"y"},{}]>, <@mesh, [{"x"},{?}]>] (%m: tensor<8x8xf32>, %n: tensor<8x8xf32>) {
    sdy.return %m, %n : tensor<8x8xf32>, tensor<8x8xf32>
  } : (tensor<8x8xf32>,tensor<8x8xf32>) -> (tensor<8x8xf32>,tensor<8x8xf32>)
  %2 = sdy.named_computation<"bar">(%0#0) in_shardings=[<@mesh, [{"x"},{}]>] (%x: tensor<8x8xf32>) {
    sdy.return %x : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = sdy.named_computation<"my fn">() out_shardings=[<@mesh, [{"x"},{}]>] () {
    %c = stablehlo.constant dense<1.0> : tensor<8x8xf32>
    sdy.return %c : tensor<8x8xf32>
  } : () -> tensor<8x8xf32>
  %4 = sdy.named_computation<"mesh">(%3) (%x: tensor<8x8xf32>) {
    sdy.return %x : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
func.func private @bar(%b: tensor<i32>) -> tensor<i32> { return %b : tensor<i32> }
func.func private @foo_1(%b: tensor<i32>) -> tensor<i32> { return %b : tensor<i32> }
"""

CALLS = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}, %b: tensor<8x8xf32>)
    -> (tensor<8x8xf32> {jax.result_info="r", sdy.sharding=#sdy.sharding<@mesh,[{},{}]>}) {
  %0 = call @f(%a) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"y"},{}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @f_0(%b) {foo="bar"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @f_1(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = call @f_1(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4:2 = call @g(%0, %1) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"},{}]>, <@mesh,[{},{"x"}]>]>}
      : (tensor<8x8xf32>,tensor<8x8xf32>) -> (tensor<8x8xf32>,tensor<8x8xf32>)
  %5 = call @h(%0) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"},{}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %6 = call @f_2(%4#1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = call @f_2(%6) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %8 = call @f_3(%7) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4#0 : tensor<8x8xf32>
}
func.func private @f(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"y"},{}]>})
    -> (tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}) attributes {sdy.original_func_name="f"} {
  %0 = stablehlo.abs %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f_0(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"y"},{}]>})
    -> (tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}) attributes {sdy.original_func_name="f"} {
  %0 = stablehlo.abs %a {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"y"},{}]>]>} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f_1(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>})
    -> (tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>})
    attributes {sdy.original_func_name="f", sdy.func_manual_axes=#sdy<manual_axes{"x"}>} {
  %0 = stablehlo.abs %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f_2(%a: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {sdy.original_func_name="f"} {
  %0 = stablehlo.abs %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
func.func private @f_3(%a: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {sdy.original_func_name="f"} {
  %0 = call @f_2(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @f_2(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @g(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}, %b: tensor<8x8xf32>)
    -> (tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{?}]>}, tensor<8x8xf32>)
    attributes {sdy.original_func_name="g"} {
  return %b, %a : tensor<8x8xf32>, tensor<8x8xf32>
}
func.func private @h(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.optimization_barrier %a : tensor<8x8xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{"y"},{?}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""

UNEVEN = """
func.func @main(%a: tensor<6x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"y","x"}p2,{}]>},
    %b: tensor<12x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x","y",?},{}]>}, %c: tensor<7x0xf32>
    {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{"y"}]>}, %d: !stablehlo.token)
    -> (tensor<6x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x","y":(1)2,?}p1,{}]>}) {
  %0 = stablehlo.abs %a {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x","y",?}p1,{}]>]>} : tensor<6x8xf32>
  %1 = stablehlo.custom_call @foo(%a) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x","y",?}p1,{}]>]>}
      : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %2 = sdy.reshard %a <@mesh,[{"x","y",?},{}]> : tensor<6x8xf32>
  %3 = sdy.sharding_constraint %a <@mesh,[{"x","y",?},{}]> {note="kept"} : tensor<6x8xf32>
  %5 = call @g(%a) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x","y",?}p1,{}]>]>}
      : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %6 = stablehlo.optimization_barrier {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x","y",?}p1,{}]>]>}
      %a : tensor<6x8xf32>
  %7 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x","y"},{?}]>] out_shardings=[<@mesh, [{"x","y"},{?}]>]
      manual_axes={"x"} (%m: tensor<3x8xf32>) {
    %z = stablehlo.abs %m : tensor<3x8xf32>
    sdy.return %z : tensor<3x8xf32>
  } : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %8 = sdy.named_computation<"foo">(%a) in_shardings=[<@mesh, [{"x","y",?},{?}]>]
      out_shardings=[<@mesh, [{"x","y"},{?}]>] (%m: tensor<6x8xf32>) {
    sdy.return %m : tensor<6x8xf32>
  } : (tensor<6x8xf32>) -> tensor<6x8xf32>
  %9 = sdy.propagation_barrier %a allowed_direction=NONE
      {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x","y",?}p1,{}]>]>} : tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
func.func private @g(%a: tensor<6x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"y","x",?}p1,{}]>})
    -> (tensor<6x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"y":(1)2,?},{}]>}) {
  return %a : tensor<6x8xf32>
}
"""

EVERYWHERE = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{?},{"x",?}p2],replicated={"y"}>,
    sdy.sharding_origins={x="self"}}, %b: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<mesh<["z"=2]>,[{?},{"z",?}]>})
    -> (tensor<8x8xf32> {jax.result_info="x", sdy.propagation_edges=
        #sdy.propagation_edges<[{step-2 = [{"y" = operand-0 -> [result-0]}]}]>}) {
  %0 = sdy.all_gather [{},{"x"}] %a out_sharding=<@mesh,[{?},{?}],replicated={"y"}> : tensor<8x8xf32>
  %1 = stablehlo.add %a, %a {sdy.sharding=#sdy.sharding_per_value<
      [<@mesh,[{"x",?},{}], replicated={"y":(1)2}, unreduced={"y":(2)2}>]>, sdy.sharding_origins={x="self"},
      sdy.sharding_rule=#sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
  stablehlo.custom_call @cb(%1) {has_side_effect=true, sdy.sharding=#sdy.sharding_per_value<[<@mesh,[]>]>}
      : (tensor<8x8xf32>) -> ()
  %2:2 = stablehlo.custom_call @cb(%1) {has_side_effect=true,
      sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{?}]>, <@mesh,[{"x",?}p3,{?}]>]>,
      sdy.sharding_rule=#sdy.op_sharding_rule<([i, j])->([i], [i, j]) {i=8, j=8}, custom>}
      : (tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>)
  %3 = sdy.replicated_to_unreduced {"y"} %a out_sharding=<@mesh, [{?},{"x",?}p2], unreduced={"y"}> : tensor<8x8xf32>
  %5 = stablehlo.optimization_barrier {sdy.block_arg_sharding_origins=[], sdy.result_propagation_edges=[]}
      %1 : tensor<8x8xf32>
  %6 = sdy.data_flow_edge %5 sharding=<@mesh, [{"x",?},{?}]> : tensor<8x8xf32>
  %7 = sdy.func_data_flow_edge %b {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{?},{?}]>]>} : tensor<8x8xf32>
  sdy.sharding_group %7 group_id=3 : tensor<8x8xf32>
  %8 = sdy.sharding_constraint %7 <@mesh, [{?}, {"x"}]> {note="kept", mhlo.frontend_attributes={a="b"}}
      : tensor<8x8xf32> loc("constrained")
  sdy.sharding_group %8 group_id=3 : tensor<8x8xf32>
  return %8 : tensor<8x8xf32>
}
"""

FUNC_EDGES = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>}) -> tensor<8x8xf32> {
  %0:2 = call @f(%a) : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %1 = sdy.func_data_flow_edge %0#0 {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{?},{"y"}]>]>} : tensor<8x8xf32>
  %2 = sdy.func_data_flow_edge %0#1 : tensor<8xf32>
  %3 = call @g(%1) {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"},{}]>]>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = sdy.func_data_flow_edge %3 : tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
func.func private @f(%a: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>) {
  %0 = sdy.func_data_flow_edge %a {sdy.sharding=#sdy.sharding_per_value<[<@other,[{?},{"y"}]>]>} : tensor<8x8xf32>
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  return %0, %c : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @g(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@other,[{"y"},{}]>}) -> tensor<8x8xf32> {
  %0 = sdy.func_data_flow_edge %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""

CONSTANTS = """
func.func @main(%p: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %1 = sdy.constant dense<1.0> : tensor<4xf32>
  %2 = stablehlo.constant dense<1.0> : tensor<4xf32>
  %3 = sdy.constant dense<1.0> : tensor<4xf32>
  %4 = stablehlo.constant {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"}]>]>} dense<1.0> : tensor<4xf32>
  %5 = stablehlo.constant {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"}]>]>} dense<1.0> : tensor<4xf32>
  %s = stablehlo.constant dense<2.0> : tensor<f32>
  %t = stablehlo.constant dense<2.0> : tensor<f32>
  %6 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %7 = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %8 = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %9 = stablehlo.broadcast_in_dim %s, dims = [] {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x"}]>]>}
      : (tensor<f32>) -> tensor<4xf32>
  %10 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>
  %11 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>
  %12 = mhlo.constant dense<1.0> : tensor<4xf32>
  %arith = arith.constant dense<1.0> : tensor<8xf32>
  %13 = stablehlo.iota dim = 0 : tensor<4xf32>
  %14 = stablehlo.add %2, %3 : tensor<4xf32>
  %15 = stablehlo.add %4, %5 : tensor<4xf32>
  %16 = stablehlo.add %6, %7 : tensor<4xf32>
  %17 = stablehlo.add %16, %9 : tensor<4xf32>
  %18 = "stablehlo.case"(%p) ({
    %a = stablehlo.constant dense<1.0> : tensor<4xf32>
    %b = stablehlo.constant dense<1.0> : tensor<4xf32>
    %c = stablehlo.add %a, %b : tensor<4xf32>
    stablehlo.return %c : tensor<4xf32>
  }, {
    %a = stablehlo.constant dense<1.0> : tensor<4xf32>
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %14, %15, %17 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
"""

NAMED_WITH_EDGES = """
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0:2 = sdy.named_computation<"foo">(%a, %a) in_shardings=[<@mesh, [{},{}]>, <@mesh, [{},{}]>]
      out_shardings=[<@mesh, [{},{}]>, <@mesh, [{},{}]>] (%m: tensor<8x8xf32>, %n: tensor<8x8xf32>) {
    %e = sdy.data_flow_edge %m sharding=<@mesh, [{?},{"y",?}]> {sdy.sharding_origins={a="input: 0"}} : tensor<8x8xf32>
    %f = sdy.data_flow_edge %n : tensor<8x8xf32>
    sdy.return %e, %f : tensor<8x8xf32>, tensor<8x8xf32>
  } {k="v"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %1 = sdy.data_flow_edge %0#0 sharding=<@mesh, [{"x"},{"y",?}]> {foo="x"} : tensor<8x8xf32>
  %2:2 = sdy.named_computation<"foo">(%1, %a) in_shardings=[<@mesh, [{},{}]>, <@mesh, [{},{}]>]
      out_shardings=[<@mesh, [{},{}]>, <@mesh, [{},{}]>] (%m: tensor<8x8xf32>, %n: tensor<8x8xf32>) {
    %f = sdy.data_flow_edge %n : tensor<8x8xf32>
    sdy.return %m, %f : tensor<8x8xf32>, tensor<8x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
  %3 = sdy.data_flow_edge %2#1 : tensor<8x8xf32>
  %4 = sdy.named_computation<"foo">(%3) (%m: tensor<8x8xf32>) {
    %x = sdy.named_computation<"bar">(%m) (%u: tensor<8x8xf32>) {
      sdy.return %u : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %y = sdy.data_flow_edge %x sharding=<@mesh, [{?},{"y",?}]> : tensor<8x8xf32>
    sdy.return %y : tensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
"""

DYNAMIC = """
func.func @main(%a: tensor<3x?xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x",?}p1,{"y"}]>})
    -> (tensor<3x?xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x",?}p1,{"y":(1)2,?}]>}) {
  %0 = stablehlo.abs %a {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{"x",?},{"y"}]>]>} : tensor<3x?xf32>
  return %0 : tensor<3x?xf32>
}
"""

MATRIX_PRODUCTS = """
func.func @main(%a: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{"x"},{}]>},
    %b: tensor<8x8xf32> {sdy.sharding=#sdy.sharding<@mesh,[{},{"y"}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"x"},{}] %a out_sharding=<@mesh,[{},{}]> : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %b {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{},{}], unreduced={"y"}>]>}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.reduce_scatter [{"y"},{}] %1 out_sharding=<@mesh,[{"y"},{}]> : tensor<8x8xf32>
  %3 = stablehlo.dot %0, %b {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{},{}]>]>}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = sdy.reduce_scatter [{"y"},{}] %3 out_sharding=<@mesh,[{"y"},{}]> : tensor<8x8xf32>
  %5 = sdy.all_gather [{"x"},{}] %a out_sharding=<@mesh,[{},{}]> : tensor<8x8xf32>
  %6 = stablehlo.dot_general %5, %4, contracting_dims = [1] x [0]
      {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{},{}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %7 = sdy.all_gather [{"x"},{}] %a out_sharding=<@mesh,[{},{}]> : tensor<8x8xf32>
  %8 = stablehlo.add %7, %2 : tensor<8x8xf32>
  %9 = sdy.reduce_scatter [{"y"},{}] %8 out_sharding=<@mesh,[{"y"},{}]> : tensor<8x8xf32>
  %10 = sdy.all_gather [{"x"},{}] %a out_sharding=<@mesh,[{},{}]> : tensor<8x8xf32>
  %11 = stablehlo.dot %10, %10 {sdy.sharding=#sdy.sharding_per_value<[<@mesh,[{},{}]>]>}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %9 : tensor<8x8xf32>
}
"""


def call_module(call: str, *results: str) -> str:
    """A call that says `call` of its results, of a function that says `results` of them, in a loop and outside."""
    annotation = f"{{sdy.sharding=#sdy.sharding_per_value<[{call}]>}}" if call else ""
    types = ", ".join([_T] * len(results))
    rows = ", ".join(f"{_T} {{sdy.sharding=#sdy.sharding{text}}}" if text else _T for text in results)
    name, first = ("%0", "%0") if len(results) == 1 else (f"%0:{len(results)}", "%0#0")
    return f"""{MESHES}
sdy.mesh @same = <["x"=2, "y"=4]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%a: {_T}) -> {_T} {{
  {name} = call @f(%a) {annotation} : ({_T}) -> ({types})
  %1 = stablehlo.add {first}, {first} : {_T}
  %2 = stablehlo.while(%i = %1) : {_T} cond {{
    %c = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    {name.replace("0", "k", 1)} = func.call @f(%i) {annotation} : ({_T}) -> ({types})
    stablehlo.return {first.replace("0", "k", 1)} : {_T}
  }}
  return %2 : {_T}
}}
func.func private @f(%a: {_T}) -> ({rows}) {{
  return {", ".join(["%a"] * len(results))} : {types}
}}
"""


_CALLS_OF_ALL_KINDS = (
    call_module("", ""),
    call_module('<@mesh,[{"x",?},{}]>', '<@mesh,[{"x"},{?}]>'),
    call_module('<@mesh,[{"x"},{}]>', '<@mesh,[{"x"},{}]>'),
    call_module('<@mesh,[{"x"},{}],replicated={"y"}>', '<@mesh,[{"x"},{}]>'),
    call_module('<@mesh,[{"x"},{}],unreduced={"y"}>', '<@mesh,[{"x"},{}]>'),
    call_module('<@mesh,[{"x"},{}]>', '<@mesh,[{"x"},{}],unreduced={"y"}>'),
    call_module("<@mesh,[{},{}]>", '<@mesh,[{},{}],unreduced={"y"}>'),
    call_module('<@other,[{"x"},{}]>', '<@mesh,[{"x"},{}]>'),
    call_module('<@same,[{"x"},{}]>', '<@mesh,[{"x"},{}]>'),
    call_module('<@mesh,[{"x"}p1,{}]>', '<@mesh,[{"x"},{}]>'),
    call_module("<@mesh,[{},{}]>", "<@other,[{},{?}]>"),
    call_module("<@one,[]>", "<@mesh,[{},{?}]>"),
    call_module("<@one,[]>", '<@mesh,[{"x"},{?}]>'),
    call_module("", "<@other,[{},{?}]>"),
    call_module("<@other,[{},{?}]>", ""),
    call_module('<@other,[{},{?}]>, <@mesh,[{"x"},{?}]>', "", '<@mesh,[{"y"},{}]>'),
    call_module('<@other,[{},{?}]>, <@mesh,[{"x"},{?}]>', '<@mesh,[{"y"},{}]>', '<@mesh,[{"y"},{}]>'),
    call_module("", "", '<@mesh,[{"y"},{}]>'),
    call_module("", '<@mesh,[{"y":(1)2},{}]>', '<mesh<["z"=8]>,[{"z"},{}]>'),
)

_BODIES = (
    EDGES,
    MANUAL_AXES,
    NAMED,
    NAMED_WITH_EDGES,
    CALLS,
    UNEVEN,
    EVERYWHERE,
    FUNC_EDGES,
    CONSTANTS,
    DYNAMIC,
    MATRIX_PRODUCTS,
)

EXPORT_MODULES = (*(MESHES + body for body in _BODIES), *_CALLS_OF_ALL_KINDS)
"""Modules that this jaxlib's verifier accepts."""


_SAID = (
    "",
    "",
    "<@mesh, [{}, {}]>",
    "<@mesh, [{?}, {?}]>",
    '<@mesh, [{"x"}, {}]>',
    '<@mesh, [{"x", ?}, {?}p1]>',
    '<@mesh, [{}, {"y":(1)2}]>',
    '<@mesh, [{"x"}, {}], replicated={"y"}>',
    '<@mesh, [{"x"}, {}], unreduced={"y"}>',
    '<@other, [{"x"}, {}]>',
    "<@other, [{}, {}]>",
)


def random_calls(seed: int) -> str:
    """Functions of few origins that call those after them, with random shardings."""
    chance = random.Random(seed)
    count = chance.randint(2, 6)
    return MESHES + "".join(_function(chance, number, count) for number in range(count))


def _function(chance: random.Random, number: int, count: int) -> str:
    rows = [f" {{sdy.sharding=#sdy.sharding{sharding}}}" if sharding else "" for sharding in chance.choices(_SAID, k=4)]
    origin = chance.choice(("", 'sdy.original_func_name="f1"', 'sdy.original_func_name="g"'))
    manual = chance.choice(("", "", 'sdy.func_manual_axes=#sdy<manual_axes{"y"}>'))
    noted = ", ".join(filter(None, (origin, manual)))
    head = "@main" if number == 0 else f"private @f{number}"
    lines = [
        f"func.func {head}(%a: {_T}{rows[0]}, %b: {_T}{rows[1]}) -> ({_T}{rows[2]}, {_T}{rows[3]})",
        f"    attributes {{{noted}}} {{" if noted and number else "    {",
        *_calls(chance, number, count),
    ]
    values = ["%a", "%b", *(line.split(":")[0].strip() + "#0" for line in lines if " call @" in line)]
    returned = chance.choices(values, k=2)
    return "\n".join([*lines, f"  return {', '.join(returned)} : {_T}, {_T}", "}", ""])


def _calls(chance: random.Random, number: int, count: int) -> Iterator[str]:
    values = ["%a", "%b"]
    for index in range(chance.randint(0, 3) if number + 1 < count else 0):
        callee = chance.randrange(number + 1, count)
        shardings = [chance.choice(_SAID[2:]) for _ in range(2)]
        note = f" {{sdy.sharding=#sdy.sharding_per_value<[{', '.join(shardings)}]>}}" if chance.random() < 0.6 else ""
        given = ", ".join(chance.choices(values, k=2))
        yield f"  %c{index}:2 = call @f{callee}({given}){note} : ({_T}, {_T}) -> ({_T}, {_T})"
        values += [f"%c{index}#0", f"%c{index}#1"]


def random_edges(seed: int) -> str:
    """Manual and named computations with edges of data flow on some of their arguments and results."""
    chance = random.Random(seed)
    lines = [f"{MESHES}func.func @main(%a: {_T}, %b: {_T}) -> {_T} {{"]
    values = ["%a", "%b"]
    for index in range(chance.randint(1, 4)):
        lines += _computation(chance, index, chance.choices(values, k=2))
        values += [f"%c{index}#0" if lines[-1].startswith("  }") else f"%d{index}"]
    return "\n".join([*lines, f"  return {values[-1]} : {_T}", "}", ""])


_FREE = ("[{?}, {?}]", "[{}, {?}p2]", '[{?}, {"y", ?}]', '[{"y":(1)2}, {}]', '[{?}, {?}], replicated={"y"}')


def _computation(chance: random.Random, index: int, operands: list[str]) -> Iterator[str]:
    is_manual = chance.random() < 0.6
    outside = ['[{"x"}, {?}]', '[{"x", ?}, {}]', '[{"x"}, {"y", ?}]']
    shardings = [f"<@mesh, {chance.choice(outside)}>" for _ in range(4)]
    local = "tensor<4x8xf32>" if is_manual else _T
    op = "sdy.manual_computation" if is_manual else 'sdy.named_computation<"g">'
    boundary = f"in_shardings=[{', '.join(shardings[:2])}] out_shardings=[{', '.join(shardings[2:])}]"
    if not is_manual and chance.random() < 0.5:
        boundary = ""
    manual = ' manual_axes={"x"}' if is_manual else ""
    yield f"  %c{index}:2 = {op}({', '.join(operands)}) {boundary}{manual} (%m: {local}, %n: {local}) {{"
    inner = ["%m", "%n"]
    for number, name in enumerate(list(inner)):
        if chance.random() < 0.6:
            inner[number] = f"%e{number}"
            yield f"    %e{number} = sdy.data_flow_edge {name}{_edge(chance, _FREE)} : {local}"
    yield f"    sdy.return {inner[1]}, {inner[0]} : {local}, {local}"
    yield f"  }} : ({_T}, {_T}) -> ({_T}, {_T})"
    if chance.random() < 0.6:
        yield f"  %d{index} = sdy.data_flow_edge %c{index}#0{_edge(chance, tuple(outside))} : {_T}"


def _edge(chance: random.Random, dims: tuple[str, ...]) -> str:
    return f" sharding=<@mesh, {chance.choice(dims)}>" if chance.random() < 0.7 else ""
