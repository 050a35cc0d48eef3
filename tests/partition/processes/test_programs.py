"""Whole per-device programs: which they are, which grids they have, regions, and collectives of their own."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.mesh import Mesh
from shardwright.notation.modules import read
from shardwright.notation.shard.grids import grids
from shardwright.partition.processes import lower
from shardwright.stage import Stage
from tests.partition.processes.definitions import Held
from tests.partition.processes.running import assert_as_defined, lowered, make_run, run_all

GRID = '"shard.grid"() {sym_name = "g", shape = array<i64: 2, 4>} : () -> ()\n'
GATHER = (
    '%r = "shard.all_gather"(%x) {grid = @g, grid_axes = array<i16: 1>, gather_axis = 0 : index}'
    " : (tensor<2xf32>) -> tensor<8xf32>"
)


def function(body: str, head: str = "(%x: tensor<2xf32>) -> tensor<8xf32>") -> str:
    return f"func.func @main{head} {{\n{body}\n}}"


def test_grids_are_found_by_symbol_with_their_axes_named() -> None:
    module = load_module(
        GRID
        + '"shard.grid"() {sym_name = "h", shape = array<i64: 8>, axis_names = ["data"]} : () -> ()\n'
        + '"mesh.mesh"() {sym_name = "m", shape = array<i64: 3>} : () -> ()\n'
        + '"mesh.cluster"() {sym_name = "c", rank = 2 : i64, dim_sizes = [4, 2]} : () -> ()\n'
    )
    assert grids(module) == {
        "g": Mesh(axis_0=2, axis_1=4, name="g"),
        "h": Mesh(data=8, name="h"),
        "m": Mesh(axis_0=3, name="m"),
        "c": Mesh(axis_0=4, axis_1=2, name="c"),
    }


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('sym_name = "g", shape = array<i64: 2, -9223372036854775808>', "no known number of devices"),
        ('sym_name = "g", shape = array<i64>', "no known number of devices"),
        ('sym_name = "g"', "no known number of devices"),
        ('sym_name = "g", shape = "2x4"', "no list of sizes"),
        ("shape = array<i64: 2>", "without a name"),
        ('sym_name = "g", shape = array<i64: 2>, axis_names = ["a", "b"]', "has 1 axes"),
        ('sym_name = "g", shape = array<i64: 2, 2>, axis_names = ["a", "a"]', "appears twice"),
    ],
)
def test_grids_that_are_none_are_refused_at_their_line(attributes: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as raised:
        grids(load_module(f'\n"shard.grid"() {{{attributes}}} : () -> ()'))
    assert raised.value.diagnostic.op == "shard.grid"
    assert ":2" in raised.value.diagnostic.location


def test_a_cluster_of_unknown_size_is_refused() -> None:
    with pytest.raises(ShardingError, match="no known number"):
        grids(load_module('"mesh.cluster"() {sym_name = "c", rank = 2 : i64, dim_sizes = [4]} : () -> ()'))


def test_a_grid_twice_is_refused() -> None:
    with pytest.raises(ShardingError, match=r"twice|redefinition"):
        grids(load_module(GRID + GRID))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (GRID + function(f"{GATHER}\nreturn %r : tensor<8xf32>"), True),
        (function("return %x : tensor<8xf32>", "(%x: tensor<8xf32>) -> tensor<8xf32>"), False),
        (GRID + function('%i = "mesh.idx"() {axis = 0 : index} : () -> i64\nreturn %i : i64', "() -> i64"), True),
        (
            GRID
            + function(
                '%s = "shard.sharding"() {grid = @g, split_axes = #shard.axisarray<[[1]]>} : () -> !shard.sharding\n'
                '%y = "shard.shard"(%x, %s) : (tensor<2xf32>, !shard.sharding) -> tensor<2xf32>\n'
                f"{GATHER}\nreturn %r : tensor<8xf32>"
            ),
            False,
        ),
        (
            'sdy.mesh @m = <["a"=2]>\n'
            + GRID
            + function(
                f"{GATHER}\nreturn %r : tensor<8xf32>",
                '(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}]>}) -> tensor<8xf32>',
            ),
            False,
        ),
    ],
)
def test_a_per_device_program_asks_or_communicates_and_has_no_annotations(text: str, answer: bool) -> None:
    assert (read(load_module(text)).stage is Stage.LOCAL) is answer


def test_shapes_stay_and_scalars_become_tensors() -> None:
    graph = lowered(
        GRID
        + function(
            f'{GATHER}\n%i = "shard.process_linear_index"() {{grid = @g}} : () -> index\nreturn %r, %i : tensor<8xf32>, index',
            "(%x: tensor<2xf32>, %n: index, %k: i32) -> (tensor<8xf32>, index)",
        )
    )
    assert [str(graph.types[value]) for value in graph.main.block.arguments] == [
        "tensor<2xf32>",
        "tensor<i64>",
        "tensor<i32>",
    ]
    assert [str(graph.types[value]) for value in graph.main.block.terminator.operands] == [
        "tensor<8xf32>",
        "tensor<i64>",
    ]
    assert {op.name.split(".")[0] for op in graph.walk()} == {"stablehlo", "func"}
    assert graph.attributes["mhlo.num_partitions"] == "8 : i32"


def test_only_the_grids_in_use_count() -> None:
    other = '"shard.grid"() {sym_name = "other", shape = array<i64: 3>} : () -> ()\n'
    assert list(lowered(GRID + other + function(f"{GATHER}\nreturn %r : tensor<8xf32>")).meshes) == ["g"]


def test_regions_are_lowered_and_handles_renumbered() -> None:
    """A loop that sums over axis 0 three times, then a sum of the program's own with the same channel handle."""
    text = (
        GRID
        + """
    func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %c = arith.constant 3 : i32
      %n = tensor.from_elements %c : tensor<i32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<2xf32>
      cond {
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %l = "shard.process_linear_index"() {grid = @g} : () -> index
        %k = arith.index_cast %l : index to i32
        %t = tensor.from_elements %k, %k : tensor<2xi32>
        %f = stablehlo.convert %t : (tensor<2xi32>) -> tensor<2xf32>
        %w = "shard.all_reduce"(%v) {grid = @g, grid_axes = array<i16: 0>} : (tensor<2xf32>) -> tensor<2xf32>
        %s = stablehlo.add %w, %f : tensor<2xf32>
        stablehlo.return %j, %s : tensor<i32>, tensor<2xf32>
      }
      %a = "shard.all_reduce"(%x) {grid = @g, grid_axes = array<i16: 1>, reduction = "max"} : (tensor<2xf32>) -> tensor<2xf32>
      %b = "stablehlo.all_reduce"(%a) ({
      ^bb0(%q: tensor<f32>, %z: tensor<f32>):
        %m = stablehlo.add %q, %z : tensor<f32>
        stablehlo.return %m : tensor<f32>
      }) {replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<2xf32>) -> tensor<2xf32>
      return %r#1, %b : tensor<2xf32>, tensor<2xf32>
    }"""
    )
    held: Held = {device: np.array([device, 10.0 - device], np.float32) for device in range(8)}
    looped = dict(held)
    for _ in range(3):
        looped = {d: looped[d % 4] + looped[d % 4 + 4] + np.float32(d) for d in range(8)}
    largest = np.array([3.0, 10.0], np.float32) + np.array([7.0, 6.0], np.float32)
    run = make_run(text, (2, 4), [held], [looped, dict.fromkeys(range(8), largest)], ["loop", "sum"])
    handles = [op.signature.get("channel_handle") for op in lowered(text).walk() if op.name == "stablehlo.all_reduce"]
    assert len({handle["handle"] for handle in handles}) == 3
    assert assert_as_defined(run, run_all([run])[0]) == 2


def test_a_device_cuts_its_part_as_in_the_rfc() -> None:
    """Slice number `mesh.idx(1)` of four, of an operand that every device holds whole."""
    text = """
    "mesh.cluster"() {sym_name = "c", rank = 2 : i64, dim_sizes = [2, 4]} : () -> ()
    func.func @main(%x: tensor<8xf32>) -> tensor<2xf32> attributes {mesh_cluster = @c} {
      %idx = "mesh.idx"() {axis = 1 : index} : () -> i64
      %size = "mesh.size"() {axis = 0 : index} : () -> i64
      %start = arith.muli %idx, %size : i64
      %at = tensor.from_elements %start : tensor<i64>
      %r = "stablehlo.dynamic_slice"(%x, %at) {slice_sizes = array<i64: 2>} : (tensor<8xf32>, tensor<i64>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }"""
    whole = np.arange(8, dtype=np.float32)
    expected = {device: whole[device % 4 * 2 :][:2] for device in range(8)}
    run = make_run(text, (2, 4), [dict.fromkeys(range(8), whole)], [expected], ["slice"])
    assert assert_as_defined(run, run_all([run])[0]) == 1


def test_several_sends_are_received_in_their_order() -> None:
    pair = (
        '{} = "shard.send"({}) {{grid = @g, grid_axes = array<i16: 0>, destination = array<i64: {}>}}'
        " : (tensor<2xf32>) -> tensor<2xf32>"
    )
    recv = (
        '{} = "shard.recv"({}) {{grid = @g, grid_axes = array<i16: 0>, source = array<i64: {}>}}'
        " : (tensor<2xf32>) -> tensor<2xf32>"
    )
    lines = [
        pair.format("%a", "%x", 0),
        pair.format("%b", "%y", 1),
        recv.format("%r", "%x", 1),
        recv.format("%s", "%y", 0),
    ]
    head = "(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)"
    text = GRID + function("\n".join([*lines, "return %r, %s : tensor<2xf32>, tensor<2xf32>"]), head)
    x: Held = {device: np.array([device, 1], np.float32) for device in range(8)}
    y: Held = {device: np.array([device, 2], np.float32) for device in range(8)}
    first = {device: x[device + 4] if device < 4 else x[device] for device in range(8)}
    second = {device: y[device - 4] if device >= 4 else y[device] for device in range(8)}
    run = make_run(text, (2, 4), [x, y], [first, second], ["up", "down"])
    assert assert_as_defined(run, run_all([run])[0]) == 2


def test_a_grid_whose_devices_are_in_another_order_counts_its_own_positions() -> None:
    module = load_module(GRID + function(f"{GATHER}\nreturn %r : tensor<8xf32>"))
    reordered = Mesh(axis_0=2, axis_1=4, name="g", device_ids=tuple(reversed(range(8))))
    plain = lower(read(module), grids(module))
    graph = lower(read(module), {"g": reordered})
    assert [op.signature for op in graph.walk()] == [op.signature for op in plain.walk()]
