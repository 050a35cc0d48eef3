"""What a program comes to: that its parts add up to what is told of the whole."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.analysis.memory import held_at_peak, held_over, memory
from shardwright.analysis.traffic import collectives
from tests.analysis.programs import HANDLE, all_reduce, along, graph

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["mlp", "decode", "gpt2", "gpt32_scan"])
def test_parts_are_the_whole_on_examples(name: str) -> None:
    spmd = sw.load(EXAMPLES / f"{name}.mlir").plan().partition(effort="fast")
    found = spmd.assessment
    assert sum(buffer.bytes for buffer in found.held) == found.memory.peak == max(found.over)
    assert len(found.over) == len(spmd.local.main.block.ops)
    total = spmd.traffic.total.executed_bytes
    for parts in (found.by_axes, found.by_place):
        assert sum(use.executed_bytes for use in parts.values()) == pytest.approx(total)
        assert list(parts.values()) == sorted(parts.values(), key=lambda use: -use.executed_bytes)
    assert {axis for axes in found.by_axes for axis in axes} <= set(spmd.mesh.sizes)
    times = found.times
    assert max(times.computing, times.links) <= times.overlapped <= times.one_after_the_other
    assert found.done - found.needed == pytest.approx(sum(one.wasted for one in found.redundant))


def test_what_loops_compute_beside_what_they_send_counts_as_computed() -> None:
    def weights(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16)

    def step(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.nn.relu(jax.nn.relu(x @ w[0]) @ w[1])

    def scanned(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda x, w: (step(x, w), None), x, w)[0]

    def unrolled(x: jax.Array, w: jax.Array) -> jax.Array:
        for two in w:
            x = step(x, two)
        return x

    arguments, args = (weights(16384, 8192), weights(4, 2, 8192, 8192)), {"x": "d,-", "w": "-,-,d,-"}
    with sw.Session(hardware=sw.hardware("h100")):
        loop, straight = (
            sw.from_jax(function, *arguments).shard(sw.Mesh(d=8), args).partition(effort="default", optimize="all")
            for function in (scanned, unrolled)
        )
    found = loop.assessment.times
    assert found.computing == pytest.approx(straight.assessment.times.computing, rel=0.05)
    assert found.overlapped < found.one_after_the_other  # something is computed beside what is sent


def test_it_is_priced_on_the_hardware_that_was_decided_for() -> None:
    with sw.Session(hardware=sw.hardware("h100")):
        slow = sw.load(EXAMPLES / "mlp.mlir").plan().partition()
    fast = sw.load(EXAMPLES / "mlp.mlir").plan().partition()
    assert slow.assessment.hardware == "NVIDIA H100 SXM"
    assert fast.assessment.hardware == "TPU v5p"
    assert slow.assessment.times.links > fast.assessment.times.links


def test_a_program_of_one_device_says_what_it_sends_and_holds() -> None:
    whole = sw.load(EXAMPLES / "mlp.mlir").plan().partition()
    alone = sw.load(whole.module("local")).per_device().assessment
    assert alone.work is None
    assert (alone.done, alone.redundant) == (0, [])
    assert alone.by_axes == whole.assessment.by_axes
    assert alone.memory.peak == whole.assessment.memory.peak


def test_what_is_held_has_the_names_of_arguments_and_of_ops() -> None:
    program = graph("""  func.func @main(%a: tensor<256xf32>) -> tensor<512xf32> {
    %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
    return %0 : tensor<512xf32>
  }""")
    held = [(buffer.bytes, buffer.op, buffer.name) for buffer in held_at_peak(program)]
    assert held == [(2048, "stablehlo.concatenate", ""), (1024, "", "arg0")]
    assert held_over(program) == [3072, 3072]


def test_what_is_held_in_a_loop_is_the_loops() -> None:
    program = graph("""  func.func @main(%a: tensor<256xf32>) -> tensor<256xf32> {
    %f = stablehlo.constant dense<false> : tensor<i1>
    %0 = stablehlo.while(%v = %a) : tensor<256xf32> cond {
      stablehlo.return %f : tensor<i1>
    } do {
      %1 = "stablehlo.reverse"(%v) <{dimensions = array<i64: 0>}> : (tensor<256xf32>) -> tensor<256xf32>
      stablehlo.return %1 : tensor<256xf32>
    }
    return %0 : tensor<256xf32>
  }""")
    held = [(buffer.op, buffer.name) for buffer in held_at_peak(program)]
    assert sorted(held) == [("", "arg0"), ("stablehlo.reverse", ""), ("stablehlo.while", "")]
    assert sum(buffer.bytes for buffer in held_at_peak(program)) == memory(program).peak == 3072


def test_an_argument_that_is_returned_is_held_twice() -> None:
    program = graph("""  func.func @main(%a: tensor<256xf32>) -> tensor<256xf32> {
    return %a : tensor<256xf32>
  }""")
    assert [buffer.name for buffer in held_at_peak(program)] == ["arg0", "arg0"]


@pytest.mark.parametrize(
    ("groups", "axes"),
    [
        (along("x"), ("x",)),
        (along("y:(2)2"), ("y",)),
        (along("x", "y"), ("x", "y")),
        ("dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>", ("x",)),
        ("dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>", ("y",)),
        ("dense<[[0, 5], [1, 4], [2, 7], [3, 6]]> : tensor<4x2xi64>", ("x", "y")),
    ],
)
def test_axes_are_found_however_groups_are_listed(groups: str, axes: tuple[str, ...]) -> None:
    body = all_reduce("%0", "%a", "tensor<8xf32>", groups)
    program = graph(
        f"  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{\n{body}\n    return %0 : tensor<8xf32>\n  }}"
    )
    (use,) = collectives(program)
    assert use.along == axes


def test_a_permute_goes_along_the_axes_in_which_its_ends_differ() -> None:
    program = graph(f"""  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = "stablehlo.collective_permute"(%a) <{{source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>,
      {HANDLE.split(", use")[0]}}}> : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}""")
    (use,) = collectives(program)
    assert use.along == ("y",)
