"""Meshes as a module brings them: passes leave their sizes open, as Shardy's do."""

import pytest

from tests.opt.tool import Tool
from tests.oracles.shardy import PROPAGATE, run_pipeline

_TWO_SIZES = """// a comment may say mesh<["x"=16]>
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<8x8xf32> {
    sdy.sharding = #sdy.sharding<mesh<["z"=8]>, [{"z"}, {}]>}) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = stablehlo.tanh %a : tensor<8x8xf32>
  %1 = stablehlo.tanh %b : tensor<8x8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>
}
"""


def test_an_inlined_mesh_may_have_another_size_than_a_named_one(tool: Tool) -> None:
    printed = tool.good("-sdy-lift-inlined-meshes", stdin=_TWO_SIZES)
    assert 'sdy.mesh @mesh_0 = <["z"=8]>' in printed


@pytest.mark.oracle
def test_each_value_is_propagated_on_its_mesh_as_in_the_cpp(tool: Tool) -> None:
    assert tool.good("-sdy-propagation-pipeline", stdin=_TWO_SIZES) == run_pipeline(_TWO_SIZES, PROPAGATE)
