"""A partial sum with several readers: the first one is split as the sum shall lie once it is taken."""

from __future__ import annotations

from shardwright.analysis.traffic import KindTraffic
from shardwright.program import load

DEVICES, ROWS, COLUMNS, SUMMED = 4, 512, 128, 2048
FULL = f"tensor<{ROWS}x{COLUMNS}xf32>"

PRODUCT = f"""
sdy.mesh @mesh = <["y"={DEVICES}]>
func.func @main(%a: tensor<{ROWS}x{SUMMED}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}]>}},
                %b: tensor<{SUMMED}x{COLUMNS}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}})
    -> (tensor<{COLUMNS}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}},
        {FULL} {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<{ROWS}x{SUMMED}xf32>, tensor<{SUMMED}x{COLUMNS}xf32>) -> {FULL}
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
    : ({FULL}, tensor<f32>) -> tensor<{COLUMNS}xf32>
  %2 = stablehlo.tanh %0 : {FULL}
  return %1, %2 : tensor<{COLUMNS}xf32>, {FULL}
}}
"""


def test_it_is_scattered_for_both_and_not_gathered_for_the_one_that_adds_up_its_rows() -> None:
    spmd = load(PRODUCT).plan().partition()
    ring = (DEVICES - 1) / DEVICES
    scattered, reduced = ROWS * COLUMNS * 4 * ring, 2 * COLUMNS * 4 * ring
    assert spmd.traffic.kinds == {
        "all_reduce": KindTraffic(1, 1, reduced, reduced),
        "reduce_scatter": KindTraffic(1, 1, scattered, scattered),
    }
    spmd.verify().require()
