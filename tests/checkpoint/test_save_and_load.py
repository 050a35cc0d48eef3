"""Arrays written on one mesh and read on another, bit for bit, and what is there when a write ends too early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.checkpoint import load, save
from shardwright.checkpoint.index import INDEX
from shardwright.checkpoint.safetensors import Entry, mapped
from shardwright.errors import ShardingError
from tests.frontends.devices import eight_devices

eight_devices()

P = PartitionSpec
RNG = np.random.default_rng(0)
TYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64")
SMALL = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")


def drawn(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Any bits of a type: also what is no number."""
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    dtype = np.dtype(getattr(ml_dtypes, dtype)) if dtype in SMALL else np.dtype(dtype)
    bits: np.ndarray = RNG.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)
    return bits.reshape(shape)


def mesh_of(data: int, model: int) -> jax.sharding.Mesh:
    return jax.make_mesh((data, model), ("data", "model"))


def laid_out(array: np.ndarray, mesh: jax.sharding.Mesh, *spec: Any) -> jax.Array:
    with jax.enable_x64(True):
        placed: jax.Array = jax.device_put(array, NamedSharding(mesh, P(*spec)))
        return placed


def same(one: Any, other: Any) -> bool:
    left, right = np.asarray(one), np.asarray(other)
    return (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


@pytest.mark.parametrize("shape", [(4, 2), (8, 1), (1, 8)], ids=str)
def test_what_was_written_on_2x4_is_read_on_other_meshes_bit_for_bit(shape: tuple[int, int], tmp_path: Path) -> None:
    written, read = mesh_of(2, 4), mesh_of(*shape)
    arrays = {dtype: drawn(dtype, (16, 24)) for dtype in (*TYPES, *SMALL)}
    specs = [("data", "model"), ("model", "data"), (None, ("data", "model")), (), ("data",)]
    tree = {name: laid_out(array, written, *specs[at % 5]) for at, (name, array) in enumerate(arrays.items())}
    sw.save_arrays(tmp_path / "saved", {"all": tree})
    like = {name: NamedSharding(read, P(*specs[(at + 1) % 5])) for at, name in enumerate(tree)}
    again = sw.load_arrays(tmp_path / "saved", {"all": like})["all"]
    for name, array in arrays.items():
        assert again[name].sharding == like[name]
        assert same(again[name], array)
    whole = sw.load_arrays(tmp_path / "saved")
    assert all(same(whole[f"all/{name}"], array) for name, array in arrays.items())


def test_a_step_goes_on_from_what_another_plan_has_written(tmp_path: Path) -> None:
    def step(params: dict[str, Any], x: Any) -> Any:
        return {name: value - 0.1 * x.sum() for name, value in params.items()}

    params = {"w": RNG.normal(size=(8, 16)).astype(np.float32), "b": RNG.normal(size=8).astype(np.float32)}
    x = np.ones((8, 4), np.float32)

    def planned(mesh: sw.Mesh) -> Any:
        return sw.from_jax(step, params, x).shard(mesh, args={"params/w": "data,model", "x": "data,-"})

    first = planned(sw.Mesh(data=2, model=4)).partition().compile(trial=False)
    once = first(params, x)
    sw.save_arrays(tmp_path / "step", {"params": once, "count": 1})
    plan = planned(sw.Mesh(data=4, model=2))
    restored = sw.load_arrays(tmp_path / "step", {"params": plan.in_shardings[0]})["params"]
    assert {name: array.sharding for name, array in restored.items()} == plan.in_shardings[0]
    second = plan.partition().compile(trial=False)(restored, x)
    assert all(same(second[name], first(once, x)[name]) for name in params)
    assert sw.load_arrays(tmp_path / "step")["count"] == 1


def test_each_shard_is_written_once_and_only_what_devices_hold_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    sw.save_arrays(tmp_path, [laid_out(array, mesh_of(2, 4), "data"), laid_out(array, mesh_of(2, 4))])
    [file] = tmp_path.glob("*.safetensors")
    assert file.stat().st_size < 2 * array.nbytes + 512
    looked: list[str] = []

    def looking(path: Path, entry: Entry) -> np.ndarray:
        looked.append(path.name)
        return mapped(path, entry)

    monkeypatch.setattr(load, "mapped", looking)
    part = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    stored = load.Files(tmp_path)._stored["0"]
    assert [piece.start for piece in stored.pieces] == [(0, 0), (4, 0)]
    read = sw.load_arrays(tmp_path, [NamedSharding(part, P("x"))])[0]
    assert same(read, array)
    assert len(looked) == 2


def test_names_are_those_that_jax_prints(tmp_path: Path) -> None:
    tree = ({"a": np.ones(1), "b": [np.zeros(2), 3]}, 4.5)
    sw.save_arrays(tmp_path, tree)
    assert list(sw.load_arrays(tmp_path)) == ["0/a", "0/b/0", "0/b/1", "1"]
    empty = np.zeros((0, 3), np.int16)
    sw.save_arrays(tmp_path, {"model.layers.0": empty})
    assert same(sw.load_arrays(tmp_path)["model.layers.0"], empty)
    shapes = {"model.layers.0": jax.ShapeDtypeStruct((0, 3), np.int16)}
    assert isinstance(sw.load_arrays(tmp_path, shapes)["model.layers.0"], np.ndarray)


def test_only_the_last_checkpoint_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "0123456789abcdef-00000-of-00002.safetensors.part").write_text("half")
    for number in range(3):
        sw.save_arrays(tmp_path, {"a": np.full(4, number)})
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors", ".txt"]
    assert sw.load_arrays(tmp_path)["a"].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("where", ["tensors", "index"])
def test_a_write_that_fails_leaves_the_old_one(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sw.save_arrays(tmp_path, {"a": np.arange(4)})
    before = sorted(tmp_path.iterdir())

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(save, "write_tensors" if where == "tensors" else "write_file", full)
    with pytest.raises(ShardingError, match="cannot write the checkpoint") as raised:
        sw.save_arrays(tmp_path, {"a": np.zeros(4)})
    assert raised.value.diagnostic.cause == "No space left on device"
    assert sorted(tmp_path.iterdir()) == before
    assert sw.load_arrays(tmp_path)["a"].tolist() == [0, 1, 2, 3]


def test_that_old_files_stay_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sw.save_arrays(tmp_path, {"a": np.arange(4)})

    def kept(path: Path, missing_ok: bool = False) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", kept)
    sw.save_arrays(tmp_path, {"a": np.zeros(4)})
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    assert sw.load_arrays(tmp_path)["a"].tolist() == [0, 0, 0, 0]


WRITER = """
import sys
import numpy as np
from shardwright.checkpoint import save_arrays
arrays = [{"a": np.full(200_000, number), "b": np.full((300, 300), number)} for number in (1, 2)]
save_arrays(sys.argv[1], arrays[0])
print("first", flush=True)
while True:
    for tree in arrays[::-1]:
        save_arrays(sys.argv[1], tree)
"""


def test_whenever_a_writer_is_killed_one_checkpoint_is_whole(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
    for _ in range(4):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"first\n"
            time.sleep(generator.uniform(0.01, 0.3))
            writer.send_signal(signal.SIGKILL)
        found = sw.load_arrays(tmp_path)
        assert len(np.unique(np.concatenate([found["a"], found["b"].ravel()]))) == 1
        assert (found["a"].shape, found["b"].shape) == ((200_000,), (300, 300))


def damaged(folder: Path, **changes: Any) -> Path:
    sw.save_arrays(folder, {"a": laid_out(np.arange(8, dtype=np.int32), mesh_of(2, 4), "data")})
    index = json.loads((folder / INDEX).read_text())
    for path, value in changes.items():
        *way, last = [int(key) if key.isdigit() else key for key in path.split("__")]
        inner = index
        for key in way:
            inner = inner[key]
        inner[last] = value
    (folder / INDEX).write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "is of version 2, this shardwright reads up to 1"),
        ({"format": "other"}, "its format is 'other'"),
        ({"arrays__a__pieces__0__file": "../a"}, "it names a file elsewhere: '../a'"),
        ({"arrays__a__pieces__0__tensor": "b"}, "has no 'b'"),
        ({"arrays__a__pieces__0__start": [4]}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__pieces__0__start": [1]}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__pieces__0__start": []}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__pieces__0": 3}, "the checkpoint's index cannot be read"),
        ({"arrays__a__pieces": []}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__dtype": "F32"}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__pieces__1__start": [5]}, "the parts of 'a' are not those of an array of shape [8]"),
        ({"arrays__a__shape": [9]}, "the parts of 'a' are not those of an array of shape [9]"),
        ({"arrays": [1]}, "the checkpoint's index cannot be read"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_an_index_that_is_not_right_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ShardingError) as raised:
        sw.load_arrays(damaged(tmp_path, **changes))
    assert words in str(raised.value)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    sw.save_arrays(tmp_path, {"a": np.arange(100)})
    [file] = tmp_path.glob("*.safetensors")
    data = file.read_bytes()
    for length in (0, 4, 20, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(ShardingError, match="is not a whole safetensors file"):
            sw.load_arrays(tmp_path)
    file.unlink()
    with pytest.raises(ShardingError, match="No such file"):
        sw.load_arrays(tmp_path)


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    sw.save_arrays(tmp_path, {"params": {"w": np.zeros((6, 4), np.float32)}})
    mesh = mesh_of(4, 2)
    asked: list[tuple[Any, str]] = [
        ({"w": NamedSharding(mesh, P())}, "the checkpoint has no array 'w'"),
        ({"params": {"w": NamedSharding(mesh, P("data"))}}, "cannot be laid out as asked for"),
        ({"params": {"w": jax.ShapeDtypeStruct((6, 4), np.int32)}}, "is float32[6, 4], int32[6, 4] is asked for"),
        ({"params": {"w": jax.ShapeDtypeStruct((4, 6), np.float32)}}, "is float32[6, 4], float32[4, 6] is asked for"),
        ({"params": {"w": "data,model"}}, "not what array 'params/w' is to be like"),
    ]
    for like, words in asked:
        with pytest.raises(ShardingError) as raised:
            sw.load_arrays(tmp_path, like)
        assert words in str(raised.value)


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    gone = jnp.ones(3)
    gone.delete()
    refused: list[tuple[Any, str]] = [
        ({"key": jax.random.key(0)}, "it has random keys"),
        ({"z": np.zeros(2, np.complex128)}, "elements of type complex128"),
        ({"a": "text"}, "elements of type"),
        ({"a": gone}, "it was donated"),
        ({"a/b": 1, "a": {"b": 2}}, "two arrays are called 'a/b'"),
        ({"w@0:4": 1}, "an array cannot be called 'w@0:4'"),
    ]
    for tree, words in refused:
        with pytest.raises(ShardingError) as raised:
            sw.save_arrays(folder, tree)
        assert words in str(raised.value), raised.value
    assert not folder.exists()
    with pytest.raises(ShardingError, match="not a path: 3"):
        sw.save_arrays(3, {})  # type: ignore[arg-type]
    with pytest.raises(ShardingError, match="no such format: 'npz'"):
        sw.save_arrays(folder, {}, format="npz")
    with pytest.raises(ShardingError, match="no checkpoint"):
        sw.load_arrays(folder)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below", "a\0b"):
        with pytest.raises(ShardingError, match="cannot write the checkpoint"):
            sw.save_arrays(place, {"a": np.ones(2)})
    with pytest.raises(ShardingError, match="no checkpoint"):
        sw.load_arrays("a\0b")
