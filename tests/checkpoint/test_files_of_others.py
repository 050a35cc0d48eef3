"""Files of safetensors and checkpoints of Orbax that others have written, and others who read what is written here."""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.errors import ShardingError
from tests.frontends.devices import eight_devices

eight_devices()

P = PartitionSpec
W = np.arange(96, dtype=np.float32).reshape(8, 12)
B = np.arange(12).astype(ml_dtypes.bfloat16)


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module.partition(".")[0]) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed, with which this is compared")


def sharding(*spec: Any) -> NamedSharding:
    return NamedSharding(jax.make_mesh((4, 2), ("data", "model")), P(*spec))


def hand_written(path: Path, **arrays: np.ndarray) -> None:
    """A file as the format's own page describes it."""
    codes = {"float32": "F32", "bfloat16": "BF16"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        at = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": codes[str(array.dtype)], "shape": list(array.shape), "data_offsets": at}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def check(path: Path) -> None:
    """What `path` holds is `W` and `B`, read whole and in slices."""
    whole = sw.load_arrays(path)
    assert {name: array.dtype for name, array in whole.items()} == {"w": W.dtype, "b": B.dtype}
    like = {"w": sharding("model", "data"), "b": sharding("data")}
    for name, array in sw.load_arrays(path, like).items():
        assert array.sharding == like[name]
        assert np.asarray(array).tobytes() == whole[name].tobytes() == {"w": W, "b": B}[name].tobytes()


def test_one_file_of_whole_tensors(tmp_path: Path) -> None:
    hand_written(tmp_path / "model.safetensors", w=W, b=B)
    check(tmp_path / "model.safetensors")
    check(tmp_path)


def test_files_of_whole_tensors_with_an_index(tmp_path: Path) -> None:
    hand_written(tmp_path / "model-00001-of-00002.safetensors", w=W)
    hand_written(tmp_path / "model-00002-of-00002.safetensors", b=B)
    names = {"w": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    with pytest.raises(ShardingError, match="no checkpoint") as raised:
        sw.load_arrays(tmp_path)
    assert "2 files of safetensors" in raised.value.diagnostic.cause
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    check(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(ShardingError, match="index cannot be read"):
        sw.load_arrays(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"w": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}', "elements of type F4"),
        ('{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', "of 8 bytes is said to have 4"),
        ('{"w": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}', "ends at byte"),
        ('{"w": {"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}}', "is said to have"),
        ('{"w": []}', "list indices"),
        ("[]", "has no attribute"),
        ("nothing", "Expecting value"),
    ],
)
def test_a_header_that_is_not_right_is_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text.encode() + bytes(8))
    with pytest.raises(ShardingError) as raised:
        sw.load_arrays(file)
    assert words in raised.value.diagnostic.cause


@needs("safetensors")
def test_the_library_reads_what_is_written_and_writes_what_is_read(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    sw.save_arrays(tmp_path / "ours", {"w": jax.device_put(W, sharding("data")), "n": np.arange(3)})
    [file] = (tmp_path / "ours").glob("*.safetensors")
    theirs = load_file(file)
    assert sorted(theirs) == ["n", *(f"w@{start}:{start + 2},0:12" for start in range(0, 8, 2))]
    np.testing.assert_array_equal(theirs["w@4:6,0:12"], W[4:6])
    save_file({"w": W}, tmp_path / "theirs.safetensors")
    np.testing.assert_array_equal(sw.load_arrays(tmp_path / "theirs.safetensors")["w"], W)


@needs("orbax.checkpoint")
def test_a_checkpoint_of_orbax_is_written_and_read_by_another_plan(tmp_path: Path) -> None:
    import orbax.checkpoint

    tree = {"params": [jax.device_put(W, sharding("data", "model")), B], "step": np.int32(3)}
    sw.save_arrays(tmp_path / "ours", tree, format="orbax")
    whole = sw.load_arrays(tmp_path / "ours")
    assert whole["params/0"].tobytes() == W.tobytes()
    assert (whole["params/1"].dtype, whole["params/1"].tobytes()) == (B.dtype, B.tobytes())
    like = {"params": [sharding("model", "data"), jax.ShapeDtypeStruct(B.shape, B.dtype)]}
    params = sw.load_arrays(tmp_path / "ours", like)["params"]
    assert params[0].sharding == like["params"][0]
    assert np.asarray(params[0]).tobytes() == W.tobytes()
    assert isinstance(params[1], np.ndarray)
    with orbax.checkpoint.StandardCheckpointer() as theirs:
        theirs.save(tmp_path / "theirs", {"w": jax.device_put(W, sharding("data"))})
    again = sw.load_arrays(tmp_path / "theirs", {"w": sharding("model")})
    assert np.asarray(again["w"]).tobytes() == W.tobytes()
    with pytest.raises(ShardingError, match="already"):
        sw.save_arrays(tmp_path / "ours", tree, format="orbax")
    with pytest.raises(ShardingError, match="has no array 'w'"):
        sw.load_arrays(tmp_path / "ours", {"w": sharding()})


def test_without_orbax_the_remedy_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "orbax", None)
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    (tmp_path / "_METADATA").touch()
    for call in (lambda: sw.load_arrays(tmp_path), lambda: sw.save_arrays(tmp_path / "new", {"w": W}, format="orbax")):
        with pytest.raises(ShardingError, match="checkpoints of Orbax need the library") as raised:
            call()
        assert "pip install orbax-checkpoint" in raised.value.diagnostic.remedy
