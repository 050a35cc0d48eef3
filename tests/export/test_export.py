"""Programs as files: what another process runs is what this one does, and what is no such file is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.errors import ShardingError
from shardwright.export import exported as exported_module
from shardwright.program import Spmd
from shardwright.runtime.call import JaxCall
from tests.frontends.devices import eight_devices

eight_devices()

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(16, 8)).astype(np.float32), RNG.normal(size=(8, 16)).astype(np.float32)
MESH = sw.Mesh(data=2, model=4)
EXAMPLES = Path(__file__).parents[2] / "examples"

ELSEWHERE = """
import sys
import jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
import numpy as np
import shardwright as sw

exported = sw.load_exported(sys.argv[1])
inputs = np.load(sys.argv[2])
params, (loss, none, key) = exported.compile()({"w": inputs["w"], "empty": None}, [inputs["x"]], key=jax.random.key(3))
assert none is None
np.savez(sys.argv[3], w=params["w"], loss=loss, key=jax.random.key_data(key))
"""


def step(params: dict[str, Any], batch: list[Any], *, key: Any) -> Any:
    noise = jax.random.normal(key, params["w"].shape)
    y = jnp.tanh(batch[0] @ params["w"])
    return {"w": params["w"] - 0.1 * batch[0].T @ y + 0 * noise}, (y.sum(), None, jax.random.fold_in(key, 1))


def partitioned() -> Spmd:
    program = sw.from_jax(step, {"w": W, "empty": None}, [X], key=jax.random.key(3), donate_argnums=0)
    return program.shard(MESH, args={"params/w": "-,model", "batch/0": "data,-"}).partition()


def test_another_process_runs_it_to_the_same_results(tmp_path: Path) -> None:
    spmd = partitioned()
    path = spmd.export(tmp_path / "step.sw")
    np.savez(tmp_path / "in.npz", w=W, x=X)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ELSEWHERE, str(path), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    subprocess.run(command, env=environment, check=True, timeout=300)
    there = np.load(tmp_path / "out.npz")
    params, (loss, _, key) = spmd.compile(trial=False)({"w": W, "empty": None}, [X], key=jax.random.key(3))
    assert there["w"].tobytes() == np.asarray(params["w"]).tobytes()
    assert there["loss"] == loss
    np.testing.assert_array_equal(there["key"], jax.random.key_data(key))


def test_what_the_file_says_is_what_the_program_is(tmp_path: Path) -> None:
    spmd = partitioned()
    exported = sw.load_exported(spmd.export(tmp_path / "step.sw", platforms=["cpu", "cuda", "tpu"]))
    graph = spmd.source.graph
    assert repr(exported) == "Exported(step, Mesh(data=2, model=4))"
    assert (exported.arguments, exported.results) == (graph.arguments, graph.results)
    assert (exported.in_shardings, exported.out_shardings) == (spmd.in_shardings, spmd.out_shardings)
    assert exported.call is not None
    assert isinstance(spmd.call, JaxCall)
    assert (exported.call.in_tree, exported.call.out_tree) == (spmd.call.in_tree, spmd.call.out_tree)
    assert (exported.call.in_leaves, exported.call.out_leaves) == (spmd.call.in_leaves, spmd.call.out_leaves)
    plan = sw.load(exported.module("propagated")).plan()
    assert list(plan.shardings.values()) == list(spmd.plan.shardings.values())
    compiled = exported.compile(trial=False)
    w = jax.device_put(W, compiled.in_shardings[0])
    compiled({"w": w, "empty": None}, [X], key=jax.random.key(3))
    assert w.is_deleted()  # it was donated
    with pytest.raises(ShardingError, match="unknown stage 'explicit'"):
        exported.module("explicit")


@pytest.mark.parametrize("name", ["mlp", "decode", "gpt32_scan"])
def test_programs_from_files_are_called_by_position(name: str, tmp_path: Path) -> None:
    spmd = sw.load(EXAMPLES / f"{name}.mlir").plan().partition(effort="fast")
    exported = sw.load_exported(spmd.export(tmp_path / "program.sw"))
    assert exported.call is None
    assert [str(one) for one in exported.in_shardings] == [str(one) for one in spmd.in_shardings]
    if name == "gpt32_scan":
        return  # takes XLA half a minute
    arrays = spmd.inputs()
    for here, there in zip(spmd.compile(trial=False)(*arrays), exported.compile(trial=False)(*arrays), strict=True):
        assert np.asarray(here).tobytes() == np.asarray(there).tobytes()


def test_the_same_program_is_the_same_file(tmp_path: Path) -> None:
    one, other = partitioned().export(tmp_path / "one.sw"), partitioned().export(tmp_path / "other.sw")
    assert one.read_bytes() == other.read_bytes()


class Pair(NamedTuple):
    """A container that a file cannot name."""

    left: Any
    right: Any


def test_functions_of_other_containers_are_called_by_position(tmp_path: Path) -> None:
    program = sw.from_jax(lambda pair: Pair(pair.left + 1, pair.right), Pair(X, W))
    spmd = program.shard(MESH, args={0: "data,-"}).partition()
    exported = sw.load_exported(spmd.export(tmp_path / "pair.sw"))
    assert exported.call is None
    left, right = exported.compile(trial=False)(X, W)
    np.testing.assert_array_equal(left, X + 1)
    np.testing.assert_array_equal(right, W)


def test_uneven_arguments_and_sums_travel_too(tmp_path: Path) -> None:
    text = """
sdy.mesh @m = <["x"=4, "y"=2], device_ids=[7, 1, 6, 0, 5, 3, 4, 2]>
func.func @main(%x: tensor<7x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>},
                %w: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}, {}]>})
    -> (tensor<7x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}], unreduced={"y"}>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<7x16xf32>, tensor<16x6xf32>) -> tensor<7x6xf32>
  return %0 : tensor<7x6xf32>
}"""
    spmd = sw.load(text).plan().partition()
    exported = sw.load_exported(spmd.export(tmp_path / "uneven.sw"))
    assert exported.out_shardings == spmd.out_shardings
    arrays = spmd.inputs()
    (here,), (there,) = (one.compile(trial=False)(*arrays) for one in (spmd, exported))
    assert here.sharding == there.sharding
    for mine, theirs in zip(here.addressable_shards, there.addressable_shards, strict=True):
        assert np.asarray(mine.data).tobytes() == np.asarray(theirs.data).tobytes()


def lu(platform: str) -> Spmd:
    matrix = jax.ShapeDtypeStruct((4, 8, 8), np.float32)
    program = sw.from_jax(jax.lax.linalg.lu, matrix, platform=platform)
    return program.shard(MESH, args={0: "data,-,-"}).partition()


def test_a_program_lowered_for_one_kind_of_device_says_so_of_another(tmp_path: Path) -> None:
    on_cpu, on_gpu = lu("cpu"), lu("cuda")
    on_cpu.export(tmp_path / "cpu.sw", platforms=["cpu"])
    with pytest.raises(ShardingError, match="cannot run on cuda: it calls @lapack_sgetrf_ffi") as raised:
        on_cpu.export(tmp_path / "cpu.sw", platforms=["cuda"])
    assert "platform='cuda'" in raised.value.diagnostic.remedy
    with pytest.raises(ShardingError, match="no such platform: 'abacus'"):
        on_cpu.export(tmp_path / "cpu.sw", platforms=["abacus"])
    path = on_gpu.export(tmp_path / "gpu.sw", platforms=["cuda"])
    exported = sw.load_exported(path)
    assert any(target.startswith("cusolver_") for target in exported.custom_calls)
    with pytest.raises(ShardingError, match="the program cannot run on cpu: it calls @cusolver_getrf_ffi"):
        exported.compile()


def edited(path: Path, edit: Callable[[dict[str, Any]], None], **members: bytes) -> Path:
    """A file with another manifest, or other members."""
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(held["manifest.json"])
    edit(manifest)
    held |= {"manifest.json": json.dumps(manifest).encode(), **members}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda manifest: manifest.update(version=2), "is exported in version 2, this shardwright reads up to 1"),
        (lambda manifest: manifest.update(format="zip"), "its format is 'zip'"),
        (lambda manifest: manifest.update(stablehlo="99.0.0"), "is of StableHLO 99.0.0, this jaxlib reads up to"),
        (lambda manifest: manifest.pop("mesh"), "not an exported program, or a damaged one"),
        (lambda manifest: manifest["call"].update(in_tree={"set": []}), "not an exported program, or a damaged one"),
        (lambda manifest: manifest["arguments"][0].update(sharding=3), "not an exported program, or a damaged one"),
    ],
)
def test_a_manifest_that_is_not_right_is_refused(
    edit: Callable[[dict[str, Any]], None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ShardingError) as raised:
        sw.load_exported(edited(partitioned().export(tmp_path / "step.sw"), edit))
    assert words in str(raised.value)


def test_a_file_that_is_damaged_or_something_else_is_refused(tmp_path: Path) -> None:
    path = partitioned().export(tmp_path / "step.sw")
    data = path.read_bytes()
    for length in (0, 30, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(ShardingError, match="not an exported program, or a damaged one"):
            sw.load_exported(path)
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])
    with pytest.raises(ShardingError):
        sw.load_exported(path).module("propagated" if b"propagated" in data[:middle] else "local")
    with pytest.raises(ShardingError, match="cannot read"):
        sw.load_exported(tmp_path / "nowhere.sw")
    with pytest.raises(ShardingError, match="not a path: 3"):
        sw.load_exported(3)  # type: ignore[arg-type]


def test_an_artifact_that_is_damaged_ends_no_process(tmp_path: Path) -> None:
    path = partitioned().export(tmp_path / "step.sw")
    with zipfile.ZipFile(path) as archive:
        local = archive.read("local.mlirbc")
    half = edited(path, lambda manifest: None, **{"local.mlirbc": local[: len(local) // 2]})
    with pytest.raises(ShardingError):
        sw.load_exported(half).compile()


def test_the_command_writes_the_same_file(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["export", str(EXAMPLES / "mlp.mlir"), "-o", str(tmp_path / "mlp.sw"), "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["written"] == {"program": str(tmp_path / "mlp.sw")}
    spmd = sw.load(EXAMPLES / "mlp.mlir").plan().partition()
    assert (tmp_path / "mlp.sw").read_bytes() == spmd.export(tmp_path / "own.sw").read_bytes()
    wrong = CliRunner().invoke(cli, ["export", str(EXAMPLES / "mlp.mlir"), "--platform", "abacus"])
    assert (wrong.exit_code, "no such platform: 'abacus'" in wrong.output) == (1, True)
    wrong = CliRunner().invoke(cli, ["export", str(EXAMPLES / "mlp.mlir"), "-o", "-"])
    assert (wrong.exit_code, "-o needs a file" in wrong.output) == (2, True)


def test_what_calls_python_is_not_exported(tmp_path: Path) -> None:
    def called(x: Any) -> Any:
        return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    spmd = sw.from_jax(called, X).shard(MESH, args={0: "data,-"}).partition()
    with pytest.raises(ShardingError, match="apart from the process that made it"):
        spmd.export(tmp_path / "called.sw")
    assert not (tmp_path / "called.sw").exists()
    assert exported_module.load_exported is sw.load_exported
