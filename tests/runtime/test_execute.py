"""Programs run in a subprocess; whatever XLA does there becomes a diagnostic here."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import load_arrays, numpy_dtype, save_arrays
from shardwright.runtime.execute import (
    Job,
    WorkerDied,
    environment_of,
    execute_local,
    execute_unsharded,
    run_jobs,
    try_jobs,
)
from shardwright.runtime.jobs import load_jobs, save_jobs
from shardwright.runtime.refused import refusal
from shardwright.runtime.shards import assemble, cut
from shardwright.sharding import TensorSharding

DOUBLE = "func.func @main(%a: {0}) -> {0} {{ %0 = stablehlo.add %a, %a : {0} return %0 : {0} }}"

ENDLESS = """
func.func @main(%a: tensor<i32>) -> tensor<i32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.while(%x = %a) : tensor<i32> cond {
    %t = stablehlo.compare NE, %x, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %y = stablehlo.add %x, %two : tensor<i32>
    stablehlo.return %y : tensor<i32>
  }
  return %0 : tensor<i32>
}"""


def test_unsharded_keeps_64_bits() -> None:
    for dtype, mlir in ((np.int64, "i64"), (np.float64, "f64")):
        value = np.array([2**40 + 1, 3], dtype)
        (result,) = execute_unsharded(DOUBLE.format(f"tensor<2x{mlir}>"), [value])
        assert result.dtype == dtype
        assert result.tolist() == [2**41 + 2, 6]


def test_in_process_gives_the_same() -> None:
    value = np.array([1.5, 2.5], ml_dtypes.bfloat16)
    (result,) = execute_unsharded(DOUBLE.format("tensor<2xbf16>"), [value], in_process=True)
    assert result.dtype == value.dtype
    assert result.tolist() == [3.0, 5.0]


def test_too_few_devices_in_this_process_is_said() -> None:
    mesh = Mesh(x=64)
    sharding = TensorSharding.of(mesh, [["x"]])
    with pytest.raises(ShardingError, match="64 devices"):
        execute_local(
            DOUBLE.format("tensor<1xf32>"),
            mesh,
            [sharding],
            [sharding],
            [np.zeros(64, np.float32)],
            [TensorType((64,), "f32")],
            in_process=True,
        )


@pytest.mark.parametrize("ids", [None, [3, 1, 0, 2]])
def test_devices_are_assigned_as_the_mesh_says(ids: list[int] | None) -> None:
    """Position p of the mesh holds shard p and sees partition id p, whichever device it is."""
    mesh = Mesh([("x", 4)], device_ids=ids)
    sharding = TensorSharding.of(mesh, [["x"]])
    module = """
    func.func @main(%a: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {
      %0 = stablehlo.partition_id : tensor<ui32>
      %1 = stablehlo.reshape %0 : (tensor<ui32>) -> tensor<1xui32>
      return %a, %1 : tensor<1xui32>, tensor<1xui32>
    }"""
    type = TensorType((4,), "ui32")
    value = np.array([10, 11, 12, 13], np.uint32)
    execution = execute_local(module, mesh, [sharding], [sharding, sharding], [value], [type, type])
    assert [output.tolist() for output in execution.outputs] == [[10, 11, 12, 13], [0, 1, 2, 3]]


def test_invalid_module_is_a_diagnostic_and_the_next_job_still_runs() -> None:
    good = Job(DOUBLE.format("tensor<1xf32>"), (np.ones(1, np.float32),))
    bad = Job("func.func @main() { nonsense }", ())
    unknown = Job(
        "func.func @main() -> tensor<1xf32> { %0 = stablehlo.custom_call @nowhere() : () -> tensor<1xf32> "
        "return %0 : tensor<1xf32> }",
        (),
    )
    results = try_jobs([bad, unknown, good])
    assert isinstance(results[0], ShardingError)
    assert "not valid MLIR" in str(results[0])
    assert isinstance(results[1], ShardingError)
    assert "nowhere" in str(results[1])
    assert not isinstance(results[2], ShardingError)
    assert results[2].outputs[0].tolist() == [2.0]
    with pytest.raises(ShardingError, match="not valid MLIR"):
        run_jobs([bad])


def test_wrong_number_of_inputs_is_a_diagnostic() -> None:
    with pytest.raises(ShardingError):
        execute_unsharded(DOUBLE.format("tensor<1xf32>"), [])


def test_an_endless_program_is_given_up() -> None:
    with pytest.raises(ShardingError, match="longer than 3 seconds"):
        execute_unsharded(ENDLESS, [np.array(0, np.int32)], timeout=3)


def test_a_process_that_dies_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA refuses unknown flags by ending its process, as it does much else."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    with pytest.raises(ShardingError, match="process that runs the program ended with status 1") as caught:
        execute_unsharded(DOUBLE.format("tensor<1xf32>"), [np.ones(1, np.float32)])
    assert caught.value.diagnostic.cause.startswith("it is the program for one device; its last words:")
    assert "xla_no_such_flag" in caught.value.diagnostic.cause
    assert caught.value.diagnostic.remedy


def test_what_results_are_held_against_is_named_where_xla_ends_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    sharding = TensorSharding.of(Mesh(x=2), [["x"]])
    job = Job("module {}", (np.ones(8),), sharding.mesh, (sharding,), (sharding,), (TensorType((8,), "f64"),))
    for each, which in (
        (job, "the per-device program, on 2"),
        (replace(job, partitioned=True), "the annotated program"),
    ):
        with pytest.raises(ShardingError) as caught:
            run_jobs([each])
        assert caught.value.diagnostic.cause.startswith(f"it is {which}")


@pytest.mark.parametrize(("said", "least"), [("", 6), ("64", 64), ("many", 6)])
def test_there_are_more_threads_than_devices(said: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six devices that each solve a batch of triangular systems waited for one another for ever, once in some hundred."""
    monkeypatch.setenv("NPROC", said)
    threads = int(environment_of(6)["NPROC"])
    assert threads > 6
    assert threads >= least


def test_a_process_that_is_killed_is_a_diagnostic() -> None:
    """A call of a Python function that another process has."""
    module = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {mhlo.backend_config = {index = 0 : ui64}}
          : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    good = Job(DOUBLE.format("tensor<4xf32>"), (np.ones(4, np.float32),))
    before, died, after = try_jobs([good, Job(module, good.inputs), good])
    assert not isinstance(before, ShardingError)
    assert isinstance(died, WorkerDied)
    assert re.search(r"was ended by signal \d+ \(SIG", died.diagnostic.message)
    assert died.diagnostic.remedy
    assert isinstance(after, WorkerDied)
    assert after.diagnostic.message == "the program was not run"
    assert died.diagnostic.message in after.diagnostic.cause


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, empty."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_modules_of_the_current_folder_are_not_run(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by `python -m`, which looks there first, nor by an empty entry of PYTHONPATH."""
    for name in ("json", "numpy", "jax", "jaxlib", "shardwright", "typing"):
        (temporary / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the current folder')")
    monkeypatch.chdir(temporary)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", *sys.path)))
    (result,) = execute_unsharded(DOUBLE.format("tensor<1xf32>"), [np.ones(1, np.float32)])
    assert result.tolist() == [2.0]


def test_a_folder_for_temporary_files_that_is_none(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary / "gone"))
    with pytest.raises(ShardingError, match=r"gone: error: .*No such file or directory") as caught:
        execute_unsharded(DOUBLE.format("tensor<1xf32>"), [np.ones(1, np.float32)])
    assert "TMPDIR" in caught.value.diagnostic.remedy


@pytest.mark.parametrize(("size", "message"), [(1 << 16, "cannot be handed"), (1, "results of the program cannot")])
def test_a_folder_for_temporary_files_that_is_full(temporary: Path, size: int, message: str) -> None:
    """Files may not be larger than what either the inputs or the results take."""
    module = f"""func.func @main(%a: tensor<{size}xf32>) -> tensor<{size}x65536xf32> {{
      %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<{size}xf32>) -> tensor<{size}x65536xf32>
      return %0 : tensor<{size}x65536xf32>
    }}"""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, before[1]))
    try:
        with pytest.raises(ShardingError, match=message) as caught:
            execute_unsharded(module, [np.ones(size, np.float32)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.diagnostic.location == str(temporary)
    assert "TMPDIR" in caught.value.diagnostic.remedy
    assert os.listdir(temporary) == []


def test_a_worker_ends_with_its_parent_and_so_does_its_folder(temporary: Path) -> None:
    """However the parent ends, and whatever the worker is at: here, a loop without an end."""
    code = "from tests.runtime.test_execute import *; execute_unsharded(ENDLESS, [np.array(0, np.int32)])"
    path = os.pathsep.join((str(Path(__file__).parents[2]), *sys.path))
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    until(lambda: bool(children.read_text().split()))
    (worker,) = children.read_text().split()
    busy = Path(f"/proc/{worker}/task")
    until(lambda: len(list(busy.iterdir())) > 4)  # XLA's threads are there
    parent.kill()
    parent.wait()
    until(lambda: not os.listdir(temporary) and not Path(f"/proc/{worker}").exists())


def until(is_so: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    "dtype", ["i1", "i4", "ui8", "i64", "f16", "bf16", "f32", "complex<f64>", "f8E4M3FN", "f8E5M2"]
)
def test_arrays_survive_files(tmp_path: Path, dtype: str) -> None:
    arrays = [np.array([[1, 0, 1]]).astype(numpy_dtype(dtype)), np.array(1).astype(numpy_dtype(dtype))]
    save_arrays(tmp_path / "a.npz", arrays)
    for before, after in zip(arrays, load_arrays(tmp_path / "a.npz"), strict=True):
        assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())


def test_jobs_survive_files(tmp_path: Path) -> None:
    mesh = Mesh([("x", 2), ("y", 4)], device_ids=[7, 6, 5, 4, 3, 2, 1, 0], name="m")
    sharding = TensorSharding.of(mesh, [["x", mesh.axis("y", 1, 2)], []], partial=[mesh.axis("y", 2, 2)], kind="max")
    job = Job("module {}", (np.ones((8, 2)),), mesh, (sharding,), (sharding,), (TensorType((8, 2), "f64"),))
    save_jobs(tmp_path, [job])
    (read,) = load_jobs(tmp_path)
    assert (read.module, read.mesh, read.in_shardings, read.out_types) == (
        job.module,
        mesh,
        (sharding,),
        job.out_types,
    )


@pytest.mark.parametrize("kind", ["sum", "max", "min", "product", "and", "or", "xor"])
def test_cutting_and_assembling_are_inverse(kind: str) -> None:
    mesh = Mesh(x=2, y=4, z=2)
    sharding = TensorSharding.of(mesh, [["y"], [mesh.axis("x")]], partial=["z"], kind=kind)
    array = np.arange(-20, 30).reshape(10, 5)
    shards = cut(array, sharding)
    assert {shard.shape for shard in shards} == {sharding.local_shape(array.shape)} == {(3, 3)}
    whole, differences = assemble(shards, sharding, array.shape)
    assert whole.tolist() == array.tolist()
    assert differences == []


def test_what_shards_hold_behind_the_end_of_an_array_is_no_difference() -> None:
    sharding = TensorSharding.of(Mesh(x=2, y=4), [["y"]])
    shards = [np.append(np.arange(2 * y, min(2 * y + 2, 7)), [x] * (y == 3)) for x in range(2) for y in range(4)]
    whole, differences = assemble(shards, sharding, (7,))
    assert whole.tolist() == list(range(7))
    assert differences == []


def test_explicit_offsets_are_cut_as_said() -> None:
    mesh = Mesh(x=2)
    sharding = TensorSharding(mesh, TensorSharding.of(mesh, [["x"]]).dims, offsets=((0, 1, 4),))
    shards = cut(np.arange(4), sharding)
    assert [shard.tolist() for shard in shards] == [[0, 0, 0], [1, 2, 3]]
    assert assemble(shards, sharding, (4,))[0].tolist() == [0, 1, 2, 3]


def test_the_entry_may_have_any_name() -> None:
    module = "func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    x = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(execute_unsharded(module, [x])[0], x)


def test_a_failed_check_within_xla_is_told_as_its_own() -> None:
    words = "INTERNAL: RET_CHECK failure (external/xla/xla/backends/cpu/runtime/fft_thunk.cc:168) IsMonotonic"
    assert "by a failed check of its own; its FFT on CPUs reads row-major arrays only" in refusal(words)
    assert "of its own" not in refusal("INVALID_ARGUMENT: no such custom call")
