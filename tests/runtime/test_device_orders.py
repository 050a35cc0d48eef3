"""Values on meshes whose devices lie in different orders: what a device is given, what it sends, what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

MESHES = {
    "a": 'sdy.mesh @a = <["x"=2, "y"=4]>',
    "b": 'sdy.mesh @b = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 2, 3, 1, 0]>',
    "c": 'sdy.mesh @c = <["x"=2, "y"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>',
}
IDS = {"a": [0, 1, 2, 3, 4, 5, 6, 7], "b": [7, 6, 5, 4, 2, 3, 1, 0]}
X = np.arange(128, dtype=np.float32).reshape(8, 16)

DOT = """
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>},
                %w: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@b, [{"y"}, {"x"}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@c, [{"y"}, {}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}"""

MANUAL = """
func.func @main(%x: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@a, [{{"x"}}, {{}}]>}}) -> tensor<8x16xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@{on}, [{{"x"}}, {{"y"}}]>] out_shardings=[<@{on}, [{{"x"}}, {{"y"}}]>]
      manual_axes={{"x", "y"}} (%b: tensor<4x4xf32>) {{
    {body}
    sdy.return %r : tensor<4x4xf32>
  }} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}}"""

GATHER = """%g = "stablehlo.all_gather"(%b) <{{all_gather_dim = 0 : i64, replica_groups = {groups},
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}}>
      : (tensor<4x4xf32>) -> tensor<8x4xf32>
    %r = stablehlo.slice %g [0:4, 0:4] : (tensor<8x4xf32>) -> tensor<4x4xf32>"""
DENSE = "dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>"
COMPACT = '#stablehlo.replica_group_mesh_axes<mesh = @b, axes = [#stablehlo.axis_ref<name = "x">]>'
BODIES: dict[str, tuple[str, Callable[[dict[int, Any]], dict[int, Any]]]] = {
    "gather": (GATHER.format(groups=DENSE), lambda of: {device: of[device % 4] for device in of}),
    "compact": (GATHER.format(groups=COMPACT), lambda of: {device: of[device % 4] for device in of}),
    "permute": (
        """%r = "stablehlo.collective_permute"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      source_target_pairs = dense<[[0,1], [1,2], [2,3], [3,4], [4,5], [5,6], [6,7], [7,0]]> : tensor<8x2xi64>}>
      : (tensor<4x4xf32>) -> tensor<4x4xf32>""",
        lambda of: {device: of[(device - 1) % 8] for device in of},
    ),
    "partition_id": (
        """%p = stablehlo.partition_id : tensor<ui32>
    %f = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
    %r = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x4xf32>""",
        lambda of: {device: np.full((4, 4), device, np.float32) for device in of},
    ),
}


def module(first: str, text: str) -> str:
    """`text` with all meshes, that called `first` in front: its positions are the partitions of the program."""
    return "\n".join([MESHES[first], *(mesh for name, mesh in MESHES.items() if name != first), text])


@pytest.mark.parametrize("first", ["a", "b"])
def test_arguments_and_results_may_lie_on_meshes_of_other_orders(first: str) -> None:
    w = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
    spmd = sw.load(module(first, DOT)).plan().partition()
    (y,) = spmd.compile()(X, w)
    np.testing.assert_allclose(y, X @ w, rtol=1e-4, atol=1e-3)
    assert [device.id for device in y.sharding.mesh.devices.flat] == [0, 2, 4, 6, 1, 3, 5, 7]
    if first == "b":
        assert spmd.verify([X, w]).ok


def test_arguments_that_lie_there_already_are_taken_as_they_are() -> None:
    step = sw.load(module("a", DOT)).plan().partition().compile()
    w = np.ones((16, 8), np.float32)
    placed = [jax.device_put(value, sharding) for value, sharding in zip((X, w), step.in_shardings, strict=True)]
    np.testing.assert_allclose(step(*placed)[0], X @ w)


def test_a_change_of_order_is_a_permutation_of_devices() -> None:
    text = """
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@b, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.negate %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}"""
    spmd = sw.load(module("a", text)).plan().partition()
    assert [op.name for op in spmd.local.walk() if "collective" in op.name] == ["stablehlo.collective_permute"]
    np.testing.assert_array_equal(spmd.compile()(X)[0], -X)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("on", ["a", "b"])
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_manual_computation_names_devices_by_their_ids(first: str, on: str, name: str) -> None:
    """As XLA's own partitioner has it: compared with by hand, since it takes a process of its own."""
    body, expected = BODIES[name]
    (result,) = sw.load(module(first, MANUAL.format(on=on, body=body))).plan().partition().compile()(X)
    shards = {d: X[i // 4 * 4 :][:4, i % 4 * 4 :][:, :4] for i, d in enumerate(IDS[on])}
    after = expected(shards)
    for position, device in enumerate(IDS[on]):
        row, column = position // 4 * 4, position % 4 * 4
        np.testing.assert_array_equal(np.asarray(result)[row : row + 4, column : column + 4], after[device])


def test_reductions_of_other_kinds_on_a_mesh_of_another_order() -> None:
    """Their collectives stand in manual computations of our own making."""
    text = """
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@b, [{"y"}, {"x"}]>})
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"y"}]>}) {
  %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions = [1]
      : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}"""
    x = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
    plan = sw.load(module("b", text)).plan()
    again = sw.load(plan.partition().module("explicit")).plan()
    for spmd in (plan.partition(), again.partition()):
        np.testing.assert_array_equal(spmd.compile()(x)[0], x.max(1))


ALONE = """
sdy.mesh @one = <[], device_ids=[1]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@one, []>},
                %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>})
    -> (tensor<8x16xf32>, tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@one, []>}) {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  return %0, %0 : tensor<8x16xf32>, tensor<8x16xf32>
}"""
MAXIMAL = """
module attributes {mhlo.num_partitions = 8 : i32} {
func.func @main(%x: tensor<8x16xf32> {mhlo.sharding = "{maximal device=1}"},
                %y: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,4]<=[8]}"})
    -> (tensor<8x16xf32>, tensor<8x16xf32> {mhlo.sharding = "{maximal device=2}"}) {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  return %0, %0 : tensor<8x16xf32>, tensor<8x16xf32>
}}"""


@pytest.mark.parametrize("text", [module("a", ALONE), MAXIMAL], ids=["sdy", "mhlo"])
def test_what_is_to_be_on_one_device_is_on_all(text: str) -> None:
    plan = sw.load(text).plan()
    assert [sharding.is_replicated for sharding in (plan.arguments["x"], plan.results["result1"])] == [True, True]
    assert plan.in_shardings[0].is_fully_replicated
    spmd = plan.partition()
    results = spmd.compile()(X, X)
    np.testing.assert_array_equal(results[0], 2 * X)
    np.testing.assert_array_equal(results[1], 2 * X)
    assert results[1].is_fully_replicated
    assert [note for note in spmd.notes if "device 1 alone" in note.message], "that it is on all of them is said"


def test_a_value_moves_to_a_mesh_of_other_axes() -> None:
    text = (
        module("a", "").strip()
        + """
sdy.mesh @z = <["z"=8]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@a, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  %0 = stablehlo.negate %x : tensor<8x16xf32>
  %1 = sdy.reshard %0 <@z, [{"z"}, {}]> : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}"""
    )
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    (result,) = jax.tree.leaves(sw.load(text).plan().partition().compile()(x))
    np.testing.assert_array_equal(result, -x)
    indices = result.sharding.devices_indices_map(x.shape)
    assert [indices[device][0].start or 0 for device in jax.devices()] == list(range(8))


def test_a_function_of_jax_stays_on_its_devices_in_their_order() -> None:
    order = [7, 6, 5, 4, 2, 3, 1, 0]
    mesh = jax.sharding.Mesh(np.array(jax.devices())[order].reshape(2, 4), ("x", "y"))
    sharding = jax.sharding.NamedSharding(mesh, sw.P("x", "y"))

    def turned(x: Any) -> Any:
        index = jax.lax.axis_index("y").astype(np.float32)
        return x * index + jax.lax.ppermute(x, "y", [(0, 1), (1, 2), (2, 3), (3, 0)])

    mapped = jax.shard_map(turned, mesh=mesh, in_specs=sw.P("x", "y"), out_specs=sw.P("x", "y"))
    fn = jax.jit(mapped, in_shardings=sharding, out_shardings=sharding)
    plan = sw.from_jax(fn, X).plan()
    step = plan.partition().compile()
    for one in (plan.in_shardings[0], plan.out_shardings, *step.in_shardings, step(X).sharding):
        assert [device.id for device in one.mesh.devices.flat] == order
    np.testing.assert_array_equal(step(jax.device_put(X, sharding)), fn(X))
