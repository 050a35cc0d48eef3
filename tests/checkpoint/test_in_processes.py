"""Checkpoints that several processes write and read, each its own part of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from tests.frontends.devices import eight_devices
from tests.test_cli_launch import launched

eight_devices()

P = PartitionSpec
TOLD = """
import sys
from pathlib import Path
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
import shardwright as sw

folder, own = Path(sys.argv[1]), jax.process_index()
W = np.arange(128, dtype=np.float32).reshape(8, 16)

def laid_out(shape, *spec):
    return NamedSharding(jax.make_mesh(shape, ("data", "model")), P(*spec))

def made(array, sharding):
    return jax.make_array_from_callback(array.shape, sharding, lambda shard: array[shard])

def arrays(shape):
    whole = {"w": made(W, laid_out(shape, "data", "model")), "turned": made(W.T, laid_out(shape, "model"))}
    return {**whole, "copied": made(W[0], laid_out(shape)), "here": jax.numpy.arange(3), "step": 7}
"""

WRITE = (
    TOLD
    + """
for _ in range(2):
    sw.save_arrays(folder, {"params": arrays((2, 4))}, format=sys.argv[2])
"""
)

READ = (
    TOLD
    + """
like = {"w": laid_out((4, 2), "model", "data"), "turned": laid_out((8, 1), "data"), "copied": laid_out((4, 2), "data")}
read = sw.load_arrays(folder, {"params": like})["params"]
want = {"w": W, "turned": W.T, "copied": W[0]}
for name, array in read.items():
    assert not array.is_fully_addressable
    assert sw.gather(array).tobytes() == np.ascontiguousarray(want[name]).tobytes(), name
if own == 0:
    print("read")
"""
)

FAIL = (
    TOLD
    + """
from shardwright.checkpoint import save
from shardwright.checkpoint.safetensors import write_tensors

if own == 1:
    def full(*arguments):
        raise OSError(28, "No space left on device")
    save.write_tensors = full

def refused(words, w):
    try:
        sw.save_arrays(folder, {"w": w})
    except sw.ShardingError as error:
        assert words in str(error), error
    else:
        raise AssertionError("written")

refused("No space left" if own == 1 else "process 1 could not write its shards", made(0 * W, laid_out((2, 4), "data")))
if own == 1:
    save.write_tensors = write_tensors
other = made(W.T if own == 1 else W, laid_out((2, 4), "data"))
refused("could not write the index" if own == 1 else "processes have not written the same array 'w'", other)
"""
)


def run(folder: Path, script: str, processes: int, *told: str) -> tuple[int, str, str]:
    file = folder.with_suffix(".py")
    file.write_text(script)
    done = launched(file, "--processes", str(processes), "--", str(folder), *told)
    return done.returncode, done.stdout, done.stderr


def test_what_four_processes_have_written_two_read_and_one_does(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert run(folder, WRITE, 4, "safetensors") == (0, "", "")
    files = sorted(folder.glob("*.safetensors"))
    assert [file.name.partition("-")[2] for file in files] == [f"{at:05d}-of-00004.safetensors" for at in range(4)]
    assert run(folder, READ, 2) == (0, "read\n", "")
    whole = sw.load_arrays(folder)
    w = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert whole["params/w"].tobytes() == w.tobytes()
    assert (whole["params/step"], whole["params/here"].tolist()) == (7, [0, 1, 2])
    like = {"params": {"w": NamedSharding(jax.make_mesh((8, 1), ("data", "model")), P("data"))}}
    assert np.asarray(sw.load_arrays(folder, like)["params"]["w"]).tobytes() == w.tobytes()


def test_a_process_that_cannot_write_leaves_the_old_one_to_all(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    sw.save_arrays(folder, {"w": np.ones(3)})
    before = sorted(folder.iterdir())
    assert run(folder, FAIL, 2) == (0, "", "")
    assert sorted(folder.iterdir()) == before
    assert sw.load_arrays(folder)["w"].tolist() == [1, 1, 1]


@pytest.mark.skipif(importlib.util.find_spec("orbax") is None, reason="orbax.checkpoint is not installed")
def test_processes_write_and_read_by_orbax(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert run(folder, WRITE.replace("range(2)", "range(1)"), 4, "orbax")[:2] == (0, "")
    assert run(folder, READ, 2)[:2] == (0, "read\n")
