"""What random programs found, each as small as it became: equal to the C++ by now, or valid where the C++ is not."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.propagation.wide import compared

_FOUND = {
    "an axis of size 1 at the boundary of a manual computation": """
sdy.mesh @mesh = <["x"=1, "y"=10, "z"=2]>
func.func @main(%a: tensor<1x24x8xf32>, %b: tensor<3xf32>) -> tensor<3xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}, {}, {"x"}]>] out_shardings=[<@mesh, [{}, {}, {}]>] manual_axes={"x"} (%c: tensor<1x24x8xf32>) {
    sdy.return %c : tensor<1x24x8xf32>
  } : (tensor<1x24x8xf32>) -> tensor<1x24x8xf32>
  return %b : tensor<3xf32>
}""",
    "an axis of size 1 at the boundary of a function": """
sdy.mesh @mesh = <["x"=9, "y"=1]>
func.func private @f(%v: tensor<1x2x1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}, {}]>}) -> tensor<1x2x1xf32> {
  %0 = stablehlo.tanh %v : tensor<1x2x1xf32>
  return %0 : tensor<1x2x1xf32>
}
func.func @main(%a: tensor<1x2x1xf32>) -> tensor<1x2x1xf32> {
  %0 = func.call @f(%a) : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  return %0 : tensor<1x2x1xf32>
}""",
    "two names of one mesh": """
sdy.mesh @other = <["x"=2, "y"=4]>
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@other, [{"x"}, {?}]>}, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y"}]>}, %c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x8xf32>
  %1 = stablehlo.add %0, %c : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}""",
    "a manual computation that is given one value twice": """
sdy.mesh @mesh = <["x"=8, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.named_computation<"n">(%a) (%c: tensor<8xf32>) {
    sdy.return %c : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.manual_computation(%0, %0) in_shardings=[<@mesh, [{"y"}]>, <@mesh, [{"y"}]>] out_shardings=[<@mesh, [{}]>] manual_axes={} (%d: tensor<8xf32>, %e: tensor<8xf32>) {
    sdy.return %e : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}""",
    "a constraint on one result, after another result has a sharding": """
sdy.mesh @mesh = <["x"=2, "y"=2, "w"=4]>
func.func @main(%a: tensor<2xf32>, %z: tensor<f32>) -> tensor<2xf32> {
  %0:2 = "stablehlo.reduce"(%a, %a, %z, %z) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
    %5 = stablehlo.maximum %p, %r : tensor<f32>
    %6 = stablehlo.maximum %q, %s : tensor<f32>
    stablehlo.return %5, %6 : tensor<f32>, tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %1 = sdy.manual_computation(%0#0) in_shardings=[<@mesh, []>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"y"} (%b: tensor<f32>) {
    %7 = stablehlo.reshape %b : (tensor<f32>) -> tensor<1xf32>
    sdy.return %7 : tensor<1xf32>
  } : (tensor<f32>) -> tensor<2xf32>
  %2 = sdy.sharding_constraint %0#1 <@mesh, [], unreduced={"w"}> : tensor<f32>
  return %1 : tensor<2xf32>
}""",
    "a computation of constants, which is copied for its users": """
sdy.mesh @mesh = <["x"=3, "y"=8]>
func.func @main(%a: tensor<24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<24xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<24xf32>, tensor<24xf32>, tensor<f32>) {
  %c = stablehlo.constant dense<1.0> : tensor<24xf32>
  %0:2 = sdy.named_computation<"f">(%c) (%p: tensor<24xf32>) {
    %k = stablehlo.constant dense<2.0> : tensor<24xf32>
    %s = stablehlo.constant dense<2.0> : tensor<f32>
    %n:1 = sdy.named_computation<"g">(%p, %k) (%q: tensor<24xf32>, %r: tensor<24xf32>) {
      sdy.sharding_group %q group_id=0 : tensor<24xf32>
      %9 = stablehlo.add %q, %r : tensor<24xf32>
      sdy.return %9 : tensor<24xf32>
    } : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
    sdy.return %n#0, %s : tensor<24xf32>, tensor<f32>
  } : (tensor<24xf32>) -> (tensor<24xf32>, tensor<f32>)
  %1 = stablehlo.add %a, %0#0 : tensor<24xf32>
  %2 = stablehlo.add %b, %0#0 : tensor<24xf32>
  return %1, %2, %0#1 : tensor<24xf32>, tensor<24xf32>, tensor<f32>
}""",
    "a group with a value carried round a loop, told twice": """
sdy.mesh @mesh = <["x"=2, "y"=2, "z"=4]>
func.func @main(%pv41_0: tensor<i32>, %pv25_0: tensor<i32>, %pv10_0: tensor<8x2xf32>, %pv10_1: tensor<1x1xf32>, %pv1_0: tensor<i32>, %pv33_0: tensor<i1>, %pv7_0: tensor<i1>, %pv47_0: tensor<i1>, %pv30_0: tensor<i1>, %pv40_0: tensor<8x2x2xf32>, %pv78_0: tensor<f32>, %a0: tensor<1x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %a1: tensor<1x1xf32>, %a2: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<f32>) {
  %v3:3 = stablehlo.while(%v4 = %a2, %v5 = %a0, %v6 = %pv1_0) : tensor<8x2xf32>, tensor<1x4x8xf32>, tensor<i32>
  cond {
    stablehlo.return %pv7_0 : tensor<i1>
  } do {
    sdy.sharding_group %v4 group_id=0 : tensor<8x2xf32>
    stablehlo.return %v4, %a0, %v6 : tensor<8x2xf32>, tensor<1x4x8xf32>, tensor<i32>
  }
  %v27:2 = stablehlo.while(%v28 = %pv10_1, %v29 = %pv25_0) : tensor<1x1xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, []>]>}
  cond {
    stablehlo.return %pv30_0 : tensor<i1>
  } do {
    %v34:1 = "stablehlo.if"(%pv33_0) ({
      sdy.sharding_group %pv10_0 group_id=0 : tensor<8x2xf32>
      stablehlo.return %pv10_1 : tensor<1x1xf32>
    }, {
      stablehlo.return %a1 : tensor<1x1xf32>
    }) : (tensor<i1>) -> (tensor<1x1xf32>)
    stablehlo.return %a1, %v29 : tensor<1x1xf32>, tensor<i32>
  }
  %v43:3 = stablehlo.while(%v44 = %a2, %v45 = %pv40_0, %v46 = %pv41_0) : tensor<8x2xf32>, tensor<8x2x2xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>, <@mesh, [{}, {}, {}]>, <@mesh, []>]>}
  cond {
    stablehlo.return %pv47_0 : tensor<i1>
  } do {
    stablehlo.return %v3#0, %pv40_0, %v46 : tensor<8x2xf32>, tensor<8x2x2xf32>, tensor<i32>
  }
  return %pv78_0 : tensor<f32>
}""",
    "a group with a value carried round a loop, and a call of which something is said": """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func private @f49(%v5: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<6xf32>, tensor<6xf32>) {
  %v6:3 = stablehlo.optimization_barrier %v5, %v5, %v5 : tensor<6xf32>, tensor<6xf32>, tensor<6xf32>
  %v7 = stablehlo.constant dense<0> : tensor<i32>
  %v9:3 = stablehlo.while(%v10 = %v5, %v11 = %v6#2, %v12 = %v7) : tensor<6xf32>, tensor<6xf32>, tensor<i32>
  cond {
    %v8 = stablehlo.constant dense<3> : tensor<i32>
    %v13 = stablehlo.compare LT, %v12, %v8 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %v13 : tensor<i1>
  } do {
    stablehlo.return %v5, %v5, %v12 : tensor<6xf32>, tensor<6xf32>, tensor<i32>
  }
  return %v6#2, %v9#1 : tensor<6xf32>, tensor<6xf32>
}
func.func @main(%pv1_0: tensor<6xf32>, %pv58_0: tensor<i32>, %pv73_0: tensor<3x0xf32>, %pv64_0: tensor<i1>, %a2: tensor<6xf32>, %a3: tensor<6xf32>, %a4: tensor<3xf32>) -> (tensor<3x0xf32>) {
  %v50:2 = func.call @f49(%a3) : (tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>)
  %v60:3 = stablehlo.while(%v61 = %pv1_0, %v62 = %a4, %v63 = %pv58_0) : tensor<6xf32>, tensor<3xf32>, tensor<i32>
  cond {
    stablehlo.return %pv64_0 : tensor<i1>
  } do {
    sdy.sharding_group %v61 group_id=0 : tensor<6xf32>
    sdy.sharding_group %a2 group_id=0 : tensor<6xf32>
    stablehlo.return %v50#1, %a4, %v63 : tensor<6xf32>, tensor<3xf32>, tensor<i32>
  }
  return %pv73_0 : tensor<3x0xf32>
}""",
}

_PRIORITY = """
sdy.mesh @mesh = <["y"=2, "z"=4]>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "z", ?}, {?}]>}) -> tensor<8x12xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y", ?}, {"z"}p1]>] out_shardings=[<@mesh, [{"y", ?}, {?}]>] manual_axes={"y"} (%b: tensor<4x12xf32>) {
    %1 = stablehlo.tanh %b : tensor<4x12xf32>
    sdy.return %1 : tensor<4x12xf32>
  } : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}"""


@pytest.mark.oracle
@pytest.mark.parametrize("what", _FOUND)
def test_what_was_found_once_is_as_the_cpp_has_it(what: str) -> None:
    (outcome,) = compared([_FOUND[what]])
    assert not outcome.died, "the C++ answers"
    assert list(outcome.differences) == []


@pytest.mark.oracle
def test_axes_whose_priority_has_not_come_are_not_taken_at_a_boundary() -> None:
    (outcome,) = compared([_PRIORITY])
    assert "not valid" in outcome.died, "the C++ splits two dimensions along one axis"
    text = str(write(propagate(read(load_module(_PRIORITY)))))
    assert 'in_shardings=[<@mesh, [{"y"}, {"z"}]>]' in text
    assert str(load_module(text)) == text


_EDGES = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", ?}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0:2 = stablehlo.optimization_barrier %a, %b : tensor<8xf32>, tensor<8xf32>
  %1 = sdy.data_flow_edge %0#1 : tensor<8xf32>
  %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%c: tensor<4xf32>) {
    %5 = sdy.data_flow_edge %c sharding=<@mesh, [{?}]> : tensor<4xf32>
    %6 = stablehlo.tanh %5 : tensor<4xf32>
    sdy.return %6 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.add %0#0, %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}"""


def test_edges_that_a_program_brings_are_taken_up() -> None:
    without = _EDGES.replace("  %1 = sdy.data_flow_edge %0#1 : tensor<8xf32>\n", "").replace("(%1)", "(%0#1)")
    without = without.replace("    %5 = sdy.data_flow_edge %c sharding=<@mesh, [{?}]> : tensor<4xf32>\n", "")
    without = without.replace("tanh %5", "tanh %c")
    assert "data_flow_edge" not in without
    assert str(write(propagate(read(load_module(_EDGES))))) == str(write(propagate(read(load_module(without)))))


def test_manual_axes_stay_where_an_edge_has_no_sharding() -> None:
    text = """sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
    %1 = sdy.data_flow_edge %b : tensor<4xf32>
    sdy.return %1 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %2 = sdy.data_flow_edge %0 : tensor<8xf32>
  return %2 : tensor<8xf32>
}"""
    written = str(write(propagate(read(load_module(text)))))
    assert 'in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]' in written
    assert str(load_module(written)) == written


def test_an_edge_without_a_sharding_takes_no_axis_twice() -> None:
    text = """sdy.mesh @mesh = <["a"=2, "b"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"a"}], unreduced={"b"}>] out_shardings=[<@mesh, [{"a"}]>] manual_axes={"a"} (%b: tensor<4xf32>) {
    %1 = sdy.data_flow_edge %b : tensor<4xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"b"}]> : tensor<4xf32>
    sdy.return %2 : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    written = str(write(propagate(read(load_module(text)))))
    assert 'in_shardings=[<@mesh, [{"a", "b"}]>]' in written  # as in the C++, which forgets what was unreduced
    assert str(load_module(written)) == written


def test_an_edge_behind_a_manual_computation_leaves_it_its_manual_axes() -> None:
    text = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
    sdy.return %b : tensor<4xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  %1 = sdy.data_flow_edge %0 sharding=<@mesh, [{"y":(1)2}]> : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""
    written = str(write(propagate(read(load_module(text)))))
    assert 'out_shardings=[<@mesh, [{"x", "y":(1)2}]>]' in written
    assert str(load_module(written)) == written


def test_an_edge_along_which_no_data_flows_is_refused() -> None:
    text = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = sdy.data_flow_edge %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""
    with pytest.raises(ShardingError, match="no data flows") as raised:
        propagate(read(load_module(text)))
    assert raised.value.diagnostic.op == "sdy.data_flow_edge"
    assert (raised.value.diagnostic.location or "").endswith(":3")


_GROUP = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>, %c: tensor<8xf32>, %d: tensor<i1>) -> tensor<8xf32> {
  %0:2 = stablehlo.while(%i = %d, %p = %b) : tensor<i1>, tensor<8xf32>
  cond {
    stablehlo.return %i : tensor<i1>
  } do {
    sdy.sharding_group %p group_id=0 : tensor<8xf32>
    sdy.sharding_group %c group_id=0 : tensor<8xf32>
    %e = stablehlo.add %a, %p : tensor<8xf32>
    stablehlo.return %i, BODY : tensor<i1>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}"""


@pytest.mark.oracle
@pytest.mark.parametrize("returned", ["%a", "%e"])
def test_a_group_hears_nothing_of_a_loops_argument(returned: str) -> None:
    text = _GROUP.replace("BODY", returned)
    (outcome,) = compared([text])
    assert not outcome.died
    assert not outcome.differences
    assert _axes(text, 1) == (("x",),)
    assert _axes(text, 2) == ((),)


@pytest.mark.oracle
def test_a_loops_argument_hears_of_its_group() -> None:
    text = _GROUP.replace("BODY", "%e").replace("add %a, %p", "add %a, %c")
    (outcome,) = compared([text])
    assert not outcome.died
    assert not outcome.differences
    assert _axes(text, 1) == _axes(text, 2) == (("x",),)


def _axes(text: str, argument: int) -> tuple[tuple[str, ...], ...]:
    graph = propagate(read(load_module(text)))
    sharding = graph.shardings[graph.main.block.arguments[argument]]
    assert sharding is not None
    return tuple(tuple(axis.name for axis in axes) for axes in sharding.axes)
