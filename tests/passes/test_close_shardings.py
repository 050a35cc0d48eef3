"""What the pass says that the C++ does not; the rest is compared in `test_export_passes`."""

from __future__ import annotations

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import load_module
from tests.passes.differential import Job, ours

_CARRIERS = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {shardwright.sharding = "#sdy.sharding<@mesh, [{?}, {?}], unreduced=max{\\22x\\22}>"})
    -> tensor<8x8xf32> {
  %0 = stablehlo.abs %a {shardwright.shardings =
      ["#sdy.sharding<@mesh, [{\\22y\\22, ?}, {?}], replicated={\\22x\\22}, unreduced=max{\\22x\\22}>"]} : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def test_an_empty_dimension_loses_its_priority() -> None:
    text = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}p1, {"x", ?}p2]>}) -> tensor<8x8xf32> {
  return %a : tensor<8x8xf32>
}
"""
    closed = ours(Job(text, "sdy-close-shardings"))
    assert '#sdy.sharding<@mesh, [{}, {"x"}p2]>' in closed
    assert load_module(closed).operation.verify()


def test_what_carriers_say_is_closed_too() -> None:
    closed = ours(Job(_CARRIERS.replace(", replicated={\\22x\\22}", ""), "sdy-close-shardings"))
    assert r'shardwright.sharding = "#sdy.sharding<@mesh, [{}, {}], unreduced=max{\22x\22}>"' in closed
    assert r'["#sdy.sharding<@mesh, [{\22y\22}, {}], unreduced=max{\22x\22}>"]' in closed
