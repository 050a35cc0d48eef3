"""The command `launch`: a Python file in several processes, as `jax.distributed` has it on several machines."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from shardwright.cli import cli
from tests.frontends.devices import eight_devices

eight_devices()

EXAMPLES = Path(__file__).parents[1] / "examples"
LOSSES = {0: 3.630287, 1: 3.629461, 2: 3.627993}
"""Of the first steps of `examples/distributed.py`."""

TOLD = """
import jax
import jax.numpy as jnp
import numpy as np
import shardwright as sw
from jax.sharding import NamedSharding, PartitionSpec as P

W, X = np.arange(96.0, dtype=np.float32).reshape(16, 6) / 96, np.arange(128.0, dtype=np.float32).reshape(8, 16) / 128
MESH = sw.Mesh(x=4, y=2)
"""

ARRAYS = (
    TOLD
    + """
def step(w, x):
    return w - 0.1, x @ w, (x @ w).sum()

expected = [np.asarray(leaf) for leaf in step(W, X)]
for mesh in (MESH, sw.Mesh(x=4, y=2, device_ids=[7, 1, 6, 0, 5, 3, 4, 2])):
    plan = sw.from_jax(step, W, X, donate_argnums=0).shard(mesh, args={"w": "y,-", "x": "x,y"})
    compiled = plan.partition().compile()
    own = [device for device in jax.local_devices()]
    shards = [jax.device_put(X[compiled.in_shardings[1].addressable_devices_indices_map(X.shape)[d]], d) for d in own]
    made = jax.make_array_from_single_device_arrays(X.shape, compiled.in_shardings[1], shards)
    elsewhere = jax.make_array_from_callback(X.shape, NamedSharding(made.sharding.mesh, P(None, "x")), lambda i: X[i])
    for x in (X, jnp.asarray(X), made, elsewhere):
        for _ in range(2):
            results = compiled(W, x)
            assert all(not leaf.is_fully_addressable for leaf in results)
            for got, want in zip(sw.gather(results), expected):
                np.testing.assert_allclose(got, want, rtol=1e-5)
again = compiled(results[0], made)
assert results[0].is_deleted()
assert sw.gather({"a": W, "b": 3})["b"] == 3

uneven = sw.from_jax(lambda x: x + x, X[:7]).shard(MESH, args={0: "x,-"}).partition().compile()
np.testing.assert_array_equal(sw.gather(uneven(X[:7])), 2 * X[:7])

mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
sums = sw.load('''
sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], unreduced={"x"}>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], unreduced={"x"}>}) {
  %0 = stablehlo.add %x, %x : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}''').plan().partition().compile()
(awaiting,) = sums(X)
try:
    sw.gather(awaiting)
except sw.ShardingError as error:
    assert "awaits a sum" in str(error), error
else:
    raise AssertionError("gathered what awaits a sum")

wide = sw.from_jax(lambda x: x + 1, jax.ShapeDtypeStruct((8,), np.int32)).shard(MESH, args={0: "x"}).partition().compile()
assert sw.gather(wide(np.arange(8, dtype=np.int32))).tolist() == list(range(1, 9))
spread = sw.from_jax(step, W, made).shard(MESH, args={"w": "y,-", "x": "x,y"}).partition()
inputs = spread.inputs()  # what is spread is drawn
np.testing.assert_array_equal(inputs[0], W)
assert (inputs[1].shape, (inputs[1] == X).all()) == (X.shape, False)
print("all is well")
"""
)

APART = (
    TOLD
    + """
def compiled(mesh, by=2.0):
    return sw.from_jax(lambda x: x * by, X).shard(mesh, args={0: (mesh.axes[0][0], None)}).partition().compile()

def refused(words, *arguments):
    try:
        compiled(*arguments)
    except sw.ShardingError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

own = jax.process_index()
refused(f"process {own} compiles another program than process {1 - own}", MESH, 2.0 + own)
part = sw.Mesh(x=4)
if own == 1:
    refused("no device of the mesh belongs to process 1", part)
else:
    np.testing.assert_array_equal(np.asarray(compiled(part)(X)), 2 * X)
away = jax.make_array_from_callback(X.shape, NamedSharding(jax.make_mesh((8,), ("x",)), P("x")), lambda i: X[i])
try:
    compiled(sw.Mesh(x=2, y=2))(away) if own == 0 else None
except sw.ShardingError as error:
    print("refused:", error.diagnostic.message)
"""
)


def launched(file: Path | str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shardwright", "launch", str(file), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def steps(text: str) -> dict[int, float]:
    """The losses that the example prints, among what XLA may print of its connections, from several threads at once."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+): loss ([\d.]+)", text)}


def approx(losses: dict[int, float]) -> Any:
    """Losses as another processor may round them; they differ by eight times as much from step to step."""
    return pytest.approx(losses, abs=1e-4)


def written(folder: Path, text: str) -> Path:
    file = folder / "script.py"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The parameters after three steps, in this process."""
    results = tmp_path_factory.mktemp("one") / "results.npz"
    code = "import jax; jax.config.update('jax_num_cpu_devices', 8); import distributed; distributed.main()"
    command = [sys.executable, "-c", code, "--results", str(results)]
    subprocess.run(command, check=True, cwd=EXAMPLES, timeout=300)
    return dict(np.load(results))


@pytest.mark.parametrize("processes", [2, 4])
def test_steps_of_a_gpt_are_those_of_one_process(
    processes: int, one_process: dict[str, np.ndarray], tmp_path: Path
) -> None:
    results = tmp_path / "results.npz"
    options = ("--processes", str(processes), "--", "--results", str(results))
    done = launched(EXAMPLES / "distributed.py", *options)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 3)
    assert steps(done.stdout) == approx(LOSSES)
    several = dict(np.load(results))
    assert several.keys() == one_process.keys()
    for name, array in several.items():
        np.testing.assert_allclose(array, one_process[name], rtol=1e-4, atol=1e-6)


def test_steps_go_on_in_another_number_of_processes(one_process: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Two steps of four processes, and one of a single process: the three of one process."""
    folder, results = ("--checkpoint", str(tmp_path / "saved")), tmp_path / "results.npz"
    done = launched(EXAMPLES / "distributed.py", "--processes", "4", "--", "--steps", "2", *folder)
    assert (done.returncode, done.stderr) == (0, "")
    told = (*folder, "--steps", "1", "--results", str(results))
    done = launched(EXAMPLES / "distributed.py", "--processes", "1", "--", *told)
    assert (done.returncode, done.stderr) == (0, "")
    assert steps(done.stdout) == approx({2: LOSSES[2]})
    for name, array in np.load(results).items():
        np.testing.assert_allclose(array, one_process[name], rtol=1e-4, atol=1e-6)


def test_arrays_come_whole_or_in_shards_and_are_gathered_on_demand(tmp_path: Path) -> None:
    done = launched(written(tmp_path, ARRAYS), "--processes", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well\n", "")


def test_processes_that_do_not_belong_together(tmp_path: Path) -> None:
    done = launched(written(tmp_path, APART), "--processes", "2")
    message = "an array lies on the devices of other processes than those that it is to go to"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"refused: {message}\n", "")


def test_the_process_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    script = """
import sys, time, jax
if jax.process_index() == 2:
    raise ValueError(f"no {sys.argv[1]} here")
time.sleep(100)
"""
    done = launched(written(tmp_path, script), "--processes", "3", "--devices", "3", "--", "data")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "error: process 2 of 3 failed: ValueError: no data here"
    assert f'File "{tmp_path / "script.py"}", line 4, in <module>' in done.stderr
    assert "Gloo" not in done.stderr


def test_no_process_outlives_the_command(tmp_path: Path) -> None:
    script = """
import os, sys, time
from pathlib import Path
import jax
Path(sys.argv[1], str(os.getpid())).touch()
time.sleep(600)
"""
    begun = tmp_path / "begun"
    begun.mkdir()
    command = [sys.executable, "-m", "shardwright", "launch", str(written(tmp_path, script)), "--", str(begun)]
    with subprocess.Popen(command) as parent:
        wait_until(lambda: len(list(begun.iterdir())) == 2, 60)
        processes = [int(path.name) for path in begun.iterdir()]
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(is_running(process) for process in processes), 20)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_run_says_whether_processes_are_equal_to_one(tmp_path: Path) -> None:
    options = ("run", str(EXAMPLES / "mlp.mlir"), "--processes", "2", "-o", str(tmp_path))
    told = CliRunner().invoke(cli, list(options))
    assert told.exit_code == 0, told.output
    assert "2 processes of 4 devices each: equal to one process, " in told.output
    told = CliRunner().invoke(cli, [*options, "--json"])
    about = json.loads(told.stdout)["verification"]["in_processes"]
    assert (about["processes"], about["devices"], about["failures"]) == (2, 4, [])
    assert about["difference"] < 1e-6
    refused = CliRunner().invoke(cli, ["run", str(EXAMPLES / "mlp.mlir"), "--processes", "3"])
    assert (refused.exit_code, "cannot be shared out among 3 processes" in refused.output) == (1, True)


def test_an_exit_status_is_a_failure(tmp_path: Path) -> None:
    done = launched(written(tmp_path, "import sys; sys.exit(3)"), "--processes", "1", "--devices", "1")
    assert done.stderr.splitlines()[0] == "error: process 0 of 1 failed: it exits with 3"
    assert launched(written(tmp_path, "import sys; sys.exit()"), "--processes", "1").returncode == 0


def test_devices_are_shared_out_evenly_and_the_file_must_be_there() -> None:
    uneven = CliRunner().invoke(cli, ["launch", str(EXAMPLES / "distributed.py"), "--processes", "3"])
    assert (uneven.exit_code, "8 devices cannot be shared out among 3 processes" in uneven.output) == (1, True)
    missing = CliRunner().invoke(cli, ["launch", "nowhere.py"])
    assert (missing.exit_code, "no such file: 'nowhere.py'" in missing.output) == (1, True)


def test_gathering_in_one_process_is_reading() -> None:
    import shardwright as sw

    given = {"a": jax.numpy.arange(4), "b": [np.ones(2)]}
    whole = sw.gather(given)
    assert whole["a"].tolist() == [0, 1, 2, 3]
    assert isinstance(whole["a"], np.ndarray)
    assert whole["b"][0].tolist() == [1, 1]
