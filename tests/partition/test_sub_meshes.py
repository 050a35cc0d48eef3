"""Values that a part of the devices is to hold: what every device computes, and that it is told."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.propagation import propagate

SUB_MESH = """
sdy.mesh @part = <["a"=2, "b"=2]> {shardwright.devices = array<i64: 2, 3>}
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@part, [{"b"}, {}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}"""


def test_only_what_a_program_states_is_told() -> None:
    """What it propagates to is on all devices, though the program has no other mesh; so it is when read again."""
    plan = sw.load(SUB_MESH).plan()
    for one in (plan, sw.load(plan.module()).plan()):
        told = [note.op for note in one.partition().notes if "alone" in note.message]
        assert told == ["argument 'x'"]
    assert "shardwright.devices" not in plan.partition().module("local")


@pytest.mark.parametrize("devices", ["array<i64: 2, 4>", "array<i64: 2, 2>", "array<i64>", '"2, 3"', "array<i64: -1>"])
def test_devices_of_a_sub_mesh_are_some_of_its_own(devices: str) -> None:
    graph = read(load_module(SUB_MESH.replace("array<i64: 2, 3>", devices)))
    with pytest.raises(ShardingError, match="the sub-mesh @part has") as raised:
        materialize(propagate(graph))
    assert "from 0 to 3" in raised.value.diagnostic.cause
