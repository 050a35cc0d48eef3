"""What is held of a program as decided, told before it is written."""

from __future__ import annotations

import pytest

from shardwright.analysis.temporaries import boundary_bytes
from shardwright.cost.hardware import hardware
from shardwright.memo import Session
from shardwright.program import load
from tests.models.steps.all import plan

CHAIN = """
sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.exponential %a : tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x16xf32>
  %3 = stablehlo.negate %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
"""


def test_values_are_held_from_where_they_are_made_to_where_they_are_read() -> None:
    searched = load(CHAIN).plan().partition().searched
    assert searched is not None
    shard = 8 * 16 * 4 // 4
    assert searched.held == searched.held_before == (3 * shard, 2 * shard)  # two are added to a third


@pytest.mark.parametrize("name", ["adam", "mixture_of_experts"])
def test_the_boundary_is_that_of_the_program_of_a_device(name: str) -> None:
    with Session(hardware=hardware("h100")):
        spmd = plan(name, "fsdp").partition()
    assert spmd.searched is not None
    arguments = sum(spmd.local.types[value].bytes for value in spmd.local.main.block.arguments)
    assert boundary_bytes(spmd.local) <= spmd.searched.held.boundary
    assert arguments <= spmd.searched.held.boundary
