"""Programs written for one device of a grid: loaded, lowered, run, from Python and from the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli

SHIFT = """
shard.grid @g(shape = 2x4)
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x12xf32>, tensor<2x3xf32>, index) {
  %all = shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : tensor<2x3xf32> -> tensor<2x12xf32>
  %next = shard.shift %x on @g grid_axes = [1] shift_axis = 1 offset = 1 rotate : tensor<2x3xf32> -> tensor<2x3xf32>
  %place = shard.process_linear_index on @g : index
  return %all, %next, %place : tensor<2x12xf32>, tensor<2x3xf32>, index
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "shift.mlir"
    path.write_text(SHIFT)
    monkeypatch.chdir(tmp_path)
    return path


def test_every_device_computes_with_its_own_input(file: Path) -> None:
    program = sw.load(file).per_device()
    x = np.arange(8 * 2 * 3, dtype=np.float32).reshape(8, 2, 3)
    results = program.run({"x": x})
    for device in range(8):
        group = [4 * (device // 4) + at for at in range(4)]
        np.testing.assert_array_equal(results["result0"][device], np.concatenate(x[group], axis=1))
        np.testing.assert_array_equal(results["result1"][device], x[group[(device - 1) % 4]])
    assert results["result2"].tolist() == list(range(8))
    assert program.mesh.sizes == {"axis_0": 2, "axis_1": 4}
    assert program.traffic.total.executed == 2
    assert "stablehlo.all_gather" in program.module()


def test_it_is_not_sharded_again(file: Path) -> None:
    program = sw.load(file)
    assert program.is_per_device
    with pytest.raises(sw.ShardingError, match="written for one device"):
        program.plan()
    with pytest.raises(sw.ShardingError, match="not written for one device"):
        sw.load("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}").per_device()


def test_run_writes_the_module_and_the_results(file: Path) -> None:
    file.write_text(SHIFT.replace("tensor<2x3xf32>, index) {", 'tensor<2x3xf32> {jax.result_info = "file"}, index) {'))
    done = CliRunner().invoke(cli, ["run", file.name])
    assert done.exit_code == 0, done.output
    assert "Results of each device" in done.output
    with np.load("shift.stages/results.npz") as results:
        assert results["result0"].shape == (8, 2, 12)
        assert results["file"].shape == (8, 2, 3)
    assert sw.load(Path("shift.stages/local.mlir")).graph.op_count > 0


def test_partition_writes_stablehlo(file: Path) -> None:
    done = CliRunner().invoke(cli, ["partition", file.name, "-o", "local.mlir"])
    assert done.exit_code == 0, done.output
    text = Path("local.mlir").read_text()
    assert "shard." not in text
    assert "stablehlo.collective_permute" in text


@pytest.mark.parametrize("command", ["run", "partition", "propagate", "verify"])
def test_shardings_are_not_taken(file: Path, command: str) -> None:
    done = CliRunner().invoke(cli, [command, file.name, "--mesh", "x=8"])
    assert done.exit_code == 1
    assert "written for one device" in done.output
    assert not Path("shift.stages").exists()


def test_what_cannot_run_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "open.mlir"
    path.write_text(
        "shard.grid @g(shape = 2x?)\n"
        "func.func @main() -> index {\n"
        "  %place = shard.process_linear_index on @g : index\n"
        "  return %place : index\n}\n"
    )
    done = CliRunner().invoke(cli, ["run", str(path)])
    assert done.exit_code == 1
    assert "@g" in done.output
    assert "Traceback" not in done.output


MATMUL = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>},
                %w: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}) -> tensor<4x6xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
"""


def test_the_local_stage_runs_as_it_is(tmp_path: Path) -> None:
    local = sw.load(sw.load(MATMUL).plan().partition().write("local", tmp_path / "local.mlir"))
    x, w = (np.random.default_rng(seed).normal(size=size).astype("f") for seed, size in ((0, (4, 8)), (1, (8, 6))))
    parts = {
        "x": np.stack([x[2 * (device // 4) :][:2, 2 * (device % 4) :][:, :2] for device in range(8)]),
        "w": np.stack([w[2 * (device % 4) :][:2] for device in range(8)]),
    }
    rows = local.per_device().run(parts)["result0"]
    whole = x @ w
    for device in range(8):
        np.testing.assert_allclose(rows[device], whole[2 * (device // 4) :][:2], rtol=1e-5, atol=1e-5)


def test_a_local_stage_without_communication_is_known_by_its_mark() -> None:
    spmd = sw.load(MATMUL).shard(args={"x": "data,-", "w": "-,-"}).partition()
    assert spmd.traffic.total.executed == 0
    local = sw.load(spmd.module())
    assert local.is_per_device
    assert local.per_device().mesh.sizes == {"data": 2, "model": 4}
    with pytest.raises(sw.ShardingError, match="written for one device"):
        local.plan()


def test_a_program_of_partitions_needs_no_mesh() -> None:
    text = """module attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<3xf32>) -> tensor<3xui32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    return %1 : tensor<3xui32>
  }
}
"""
    rows = sw.load(text).per_device().run()["result0"]
    assert rows.tolist() == [[device] * 3 for device in range(4)]


def test_partitions_and_mesh_must_agree() -> None:
    text = """module attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=5]>
  func.func @main() -> tensor<ui32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    return %0 : tensor<ui32>
  }
}
"""
    with pytest.raises(sw.ShardingError, match="of 4 partitions, its mesh @mesh of 5 devices"):
        sw.load(text).per_device()
