"""Values that a part of the devices is to hold: what every device computes, and that it is told."""

from __future__ import annotations

import random

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case

DOT = "stablehlo.dot_general {}, {}, contracting_dims = [1] x [0] : (tensor<12x12xf32>, tensor<12x12xf32>) -> tensor<12x12xf32>"


def tiled(dims: tuple[int, ...], devices: list[int]) -> str:
    return f"{{devices=[{','.join(map(str, dims))}]{','.join(map(str, devices))}}}"


def pipeline(stages: list[list[int]], count: int, dims: tuple[int, int] = (1, 0)) -> str:
    """A value moved from stage to stage, each with weights of its own."""
    size = len(stages[0])
    rows, columns = (size, 1) if dims[0] else (1, size), (1, size)
    arguments = [f'%x: tensor<12x12xf32> {{mhlo.sharding = "{tiled(rows, stages[0])}"}}']
    lines = []
    value = "%x"
    for number, devices in enumerate(stages):
        arguments.append(f'%w{number}: tensor<12x12xf32> {{mhlo.sharding = "{tiled(columns, devices)}"}}')
        lines += [
            f'  %in{number} = stablehlo.custom_call @Sharding({value}) {{mhlo.sharding = "{tiled(rows, devices)}"}}'
            " : (tensor<12x12xf32>) -> tensor<12x12xf32>",
            f"  %dot{number} = {DOT.format(f'%in{number}', f'%w{number}')}",
            f"  %out{number} = stablehlo.tanh %dot{number} : tensor<12x12xf32>",
        ]
        value = f"%out{number}"
    result = f'(tensor<12x12xf32> {{mhlo.sharding = "{tiled(rows, stages[-1])}"}})'
    return (
        f"module attributes {{mhlo.num_partitions = {count} : i32}} {{\n"
        f"func.func @main({', '.join(arguments)}) -> {result} {{\n"
        + "\n".join([*lines, f"  return {value} : tensor<12x12xf32>", "}}"])
    )


def collectives(text: str) -> list[str]:
    spmd = sw.load(text).plan().partition(effort="fast")
    return [op.name.removeprefix("stablehlo.") for op in spmd.local.walk() if "all_" in op.name or "permute" in op.name]


LOOP = """module attributes {mhlo.num_partitions = 4 : i32} {
func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = "{devices=[2,1]0,1}"},
                %w: tensor<8x8xf32> {mhlo.sharding = "{devices=[1,2]3,2}"})
    -> (tensor<8x8xf32> {mhlo.sharding = "{devices=[1,2]2,3}"}, tensor<8x8xf32> {mhlo.sharding = "{maximal device=2}"}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8x8xf32>
  cond {
    %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2,1]2,3}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %d = stablehlo.dot %s, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = stablehlo.tanh %d {mhlo.sharding = "{devices=[2,1]1,0}"} : tensor<8x8xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %t : tensor<i32>, tensor<8x8xf32>
  }
  %1 = stablehlo.add %0#1, %x {mhlo.sharding = "{devices=[2,2]<=[4]}"} : tensor<8x8xf32>
  return %1, %0#1 : tensor<8x8xf32>, tensor<8x8xf32>
}}"""

PARTIAL = """module attributes {mhlo.num_partitions = 6 : i32} {
func.func @main(%x: tensor<6x6xf32> {mhlo.sharding = "{devices=[1,3]0,2,4}"}, %w: tensor<6x6xf32>
    {mhlo.sharding = "{devices=[3,1]0,2,4}"}, %b: tensor<6x6xf32> {mhlo.sharding = "{devices=[2,1]5,1}"})
    -> (tensor<6x6xf32> {mhlo.sharding = "{devices=[1,6]<=[6]}"}, tensor<6x6xf32>) {
  %0 = stablehlo.dot %x, %w {mhlo.sharding = "{devices=[1,1,3]0,2,4 last_tile_dims={unreduced}}"}
      : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %1:2 = stablehlo.optimization_barrier {mhlo.sharding = "{{devices=[3,1]5,3,1}, {maximal device=3}}"} %0, %b
      : tensor<6x6xf32>, tensor<6x6xf32>
  %2 = stablehlo.add %1#0, %1#1 : tensor<6x6xf32>
  return %2, %1#1 : tensor<6x6xf32>, tensor<6x6xf32>
}}"""

PROGRAMS = {
    "two stages": pipeline([[0, 1], [2, 3]], 4),
    "two stages in another order": pipeline([[0, 1], [3, 2]], 4),
    "there and back": pipeline([[0, 1], [2, 3], [1, 0]], 4),
    "three stages": pipeline([[0, 1], [2, 3], [4, 5]], 6),
    "interleaved": pipeline([[0, 3], [1, 4], [5, 2]], 6),
    "overlapping": pipeline([[0, 1], [1, 2], [3, 0]], 4),
    "a part of a part": pipeline([[4, 5, 6, 7], [0, 1, 2, 3]], 8, (0, 1)),
    "devices that nobody names": pipeline([[6, 1], [3, 4]], 8),
    "loop": LOOP,
    "partial sums and tuples": PARTIAL,
}


def test_every_device_computes_what_a_part_is_to_hold() -> None:
    cases = [make_case(sw.convert(text, to="sdy"), seed) for seed, text in enumerate(PROGRAMS.values())]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, (name, case) in enumerate(zip(PROGRAMS, cases, strict=True)):
        assert_equal(name, case, done[2 * number], done[2 * number + 1])


def divided(chance: random.Random) -> str:
    """A pipeline of 1 to 4 stages on parts of 2 to 8 devices."""
    count = chance.choice([2, 3, 4, 4, 6, 6, 8, 8])
    size = chance.choice([size for size in (2, 3, 4) if count % size == 0])
    devices = list(range(count))
    if chance.random() < 0.6:
        chance.shuffle(devices)
    parts = [devices[first : first + size] for first in range(0, count, size)]
    if chance.random() < 0.2:
        parts = [chance.sample(devices, size) for _ in range(3)]
    stages = [chance.choice(parts) for _ in range(chance.randint(1, 4))]
    return pipeline([chance.sample(stage, size) if chance.random() < 0.3 else stage for stage in stages], count)


def test_random_divisions_of_the_devices() -> None:
    chance = random.Random(0)
    cases = [make_case(sw.convert(divided(chance), to="sdy"), seed) for seed in range(24)]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, case in enumerate(cases):
        assert_equal(str(number), case, done[2 * number], done[2 * number + 1])


def test_nothing_is_moved_between_stages_that_lie_alike() -> None:
    gathered = ["all_gather"] * 2  # the weights of either stage
    assert collectives(pipeline([[0, 1], [2, 3]], 4)) == gathered
    assert collectives(pipeline([[0, 2], [3, 1]], 4)) == gathered
    there_and_back = collectives(pipeline([[0, 1], [2, 3], [1, 0]], 4))
    assert sorted(there_and_back) == ["all_gather"] * 3 + ["collective_permute"]


def test_what_is_to_be_on_a_part_of_the_devices_is_told() -> None:
    spmd = sw.load(PROGRAMS["two stages"]).plan().partition()
    told = {note.op: note for note in spmd.notes if "alone" in note.message}
    assert list(told) == [
        "argument 'x'",
        "argument 'w0'",
        "argument 'w1'",
        "a value of sdy.reshard",
        "result 'result0'",
    ]
    note = told["argument 'w1'"]
    assert note.message == ("it is to be on devices 2 and 3 alone, and the other 2 hold it as well: each runs every op")
    assert (note.bytes, note.measure, note.is_fallback) == (12 * 6 * 4, "held", True)
    assert note.location.endswith(":2")
    assert "all 4 devices" in note.remedy
    with pytest.raises(ShardingError, match="cannot be partitioned strictly"):
        sw.load(PROGRAMS["two stages"]).plan().partition(strict=True)


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
