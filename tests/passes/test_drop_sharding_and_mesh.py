"""Where nothing refers to a mesh any more the C++ pass says the same; elsewhere it writes what nobody can read."""

from __future__ import annotations

import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module
from tests.passes.differential import Job, assert_same, ours

_NAME = "sdy-drop-sharding-and-mesh"
_PLAIN = """
module attributes {mhlo.spmd_output_sharding = "{replicated}", mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @other = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, jax.buffer_donor = true})
      -> (tensor<8x8xf32> {jax.result_info = "r", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.while(%i = %a) : tensor<8x8xf32>
        attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1 = stablehlo.abs %i {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>,
          sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=8}>} : tensor<8x8xf32>
      stablehlo.return %1 : tensor<8x8xf32>
    }
    return %0 : tensor<8x8xf32>
  }
}
"""
_REFERRED_TO = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @"my mesh" = <["x"=2, "y"=4]>
sdy.mesh @unused = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@unused, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@mesh, [{}, {"x"}]> {sdy.sharding_origin_name = "@unused is no reference"} : tensor<8x8xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@"my mesh", [{"x"}, {}]>] out_shardings=[<@"my mesh", [{"x"}, {}]>]
      manual_axes={"x"} (%b: tensor<4x8xf32>) {
    sdy.return %b : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""


@pytest.mark.oracle
def test_a_plain_module_reads_as_after_the_pass_of_the_same_name() -> None:
    assert assert_same([Job(_PLAIN, _NAME)], refusals=False) == 1


def test_a_mesh_that_an_op_refers_to_stays() -> None:
    text = ours(Job(_REFERRED_TO, _NAME))
    assert "sdy.mesh @mesh" in text
    assert 'sdy.mesh @"my mesh"' in text
    assert "sdy.mesh @unused" not in text
    assert load_module(text).operation.verify()


def test_carriers_are_dropped() -> None:
    text = ours(
        Job(
            """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {shardwright.sharding = "mesh.sharding @mesh split_axes = [[0]] halo_sizes = [1, 1]"})
    -> (tensor<8xf32> {shardwright.sharding = "mesh.sharding @mesh split_axes = [[0]] halo_sizes = [1, 1]"}) {
  %0 = stablehlo.abs %a {shardwright.shardings = ["mesh.sharding @mesh split_axes = [[0]] halo_sizes = [1, 1]"]}
      : tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
            _NAME,
        )
    )
    assert "mesh" not in text
