"""Explicit programs on meshes some of whose axes are of size 1: what names these alone is no communication."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.partition.unit_axes import without_unit_axes
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case

_TEXT = """
sdy.mesh @mesh = <["x"={x}, "y"={y}, "z"={z}]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x", "y"}}, {{"z"}}]>}},
                %b: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"z"}}, {{"y"}}]>}})
    -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"z"}}, {{"y"}}]>}}) {{
  %0 = sdy.all_gather [{{"y"}}, {{}}] %a out_sharding=<@mesh, [{{"x"}}, {{"z"}}]> : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %b {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{"x"}}, {{"y"}}], unreduced={{"z"}}>]>}}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.all_reduce {{"z"}} %1 out_sharding=<@mesh, [{{"x"}}, {{"y"}}]> : tensor<8x8xf32>
  %3 = sdy.all_to_all [{{"y"}}: 1->0] %2 out_sharding=<@mesh, [{{"x", "y"}}, {{}}]> : tensor<8x8xf32>
  %4 = sdy.all_gather [{{"x", "y"}}, {{}}] %3 out_sharding=<@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
  %5 = sdy.all_slice [{{"z"}}, {{"y"}}] %4 out_sharding=<@mesh, [{{"z"}}, {{"y"}}]> : tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}}
"""
_SIZES = [(2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2), (1, 1, 1), (2, 2, 2)]


def test_they_compute_what_one_device_does() -> None:
    cases = [make_case(_TEXT.format(x=x, y=y, z=z), seed=0) for x, y, z in _SIZES]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, case in enumerate(cases):
        assert_equal(str(_SIZES[number]), case, *done[2 * number : 2 * number + 2])


@pytest.mark.parametrize(
    ("sizes", "collectives"),
    [
        ((2, 1, 1), ["all_gather"]),
        ((1, 2, 1), ["all_gather", "all_to_all", "all_gather", "all_slice"]),
        ((1, 1, 2), ["all_reduce", "all_slice"]),
        ((1, 1, 1), []),
    ],
)
def test_collectives_along_them_alone_are_gone(sizes: tuple[int, int, int], collectives: list[str]) -> None:
    text = _TEXT.format(**dict(zip("xyz", sizes, strict=True)))
    made = materialize(read(load_module(text))).graph
    names = [op.name.removeprefix("sdy.") for op in made.walk() if op.signature.step is not None]
    assert names == collectives


def test_a_program_with_a_manual_computation_keeps_them() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2, "y"=1]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>]
          manual_axes={"x", "y"} (%b: tensor<4xf32>) {
        %2 = stablehlo.negate %b : tensor<4xf32>
        sdy.return %2 : tensor<4xf32>
      } : (tensor<8xf32>) -> tensor<8xf32>
      %1 = sdy.all_gather [{"x", "y"}] %0 out_sharding=<@mesh, [{}]> : tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    """
    graph = read(load_module(text))
    assert without_unit_axes(graph) is graph
