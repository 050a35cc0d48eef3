"""Inputs follow what arguments say, or their types; given ones are checked."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.runtime.inputs import load_inputs, make_inputs

F32 = TensorType((1000,), "f32")


def _one(type: TensorType, description: str | None = None, seed: int = 0) -> np.ndarray:
    attributes = [{"shardwright.input": f'"{description}"'}] if description else [{}]
    return make_inputs([type], ["a"], attributes, seed=seed)[0]


def test_forms() -> None:
    assert 1.8 < float(np.std(_one(F32, "normal 2"))) < 2.2
    uniform = _one(F32, "uniform -1 3")
    assert -1 <= uniform.min() < -0.9
    assert 2.9 < uniform.max() <= 3
    assert set(_one(TensorType((1000,), "i32"), "integers -1 2").tolist()) == {-1, 0, 1}
    assert set(_one(F32, "constant 2.5").tolist()) == {2.5}


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("f32", -1, 1), ("bf16", -1, 1), ("i32", 0, 7), ("ui8", 0, 7), ("i1", 0, 1), ("i2", 0, 1)],
)
def test_defaults_are_small(dtype: str, low: float, high: float) -> None:
    value = _one(TensorType((100,), dtype)).astype(np.float64)
    assert low <= value.min() < value.max() <= high


def test_complex_and_scalars() -> None:
    assert np.iscomplex(_one(TensorType((4,), "complex<f32>"))).all()
    assert _one(TensorType((), "f32")).shape == ()
    assert _one(TensorType((), "i32"), "constant 3") == 3


def test_seeded_by_argument() -> None:
    assert _one(F32).tolist() == _one(F32).tolist() != _one(F32, seed=1).tolist()
    both = make_inputs([F32, F32], ["a", "b"])
    assert both[0].tolist() == _one(F32).tolist() != both[1].tolist()


@pytest.mark.parametrize("description", ["normal", "normal x", "gauss 1", "uniform 1", "integers 3 3", ""])
def test_what_is_not_understood_names_the_argument(description: str) -> None:
    with pytest.raises(ShardingError, match="argument a"):
        make_inputs([F32], ["a"], [{"shardwright.input": f'"{description}"'}])


@pytest.mark.parametrize("seed", [-1, -(2**70), 1.5, "7", None])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ShardingError, match="not a seed"):
        make_inputs([F32], ["a"], seed=seed)


def test_any_whole_number_is_a_seed() -> None:
    seeds: tuple[Any, ...] = (True, np.int64(7), 2**31, 2**70)
    assert len({_one(F32, seed=seed).tobytes() for seed in seeds}) == len(seeds)


HEADERS = {
    "never closed": b"(" * 200,
    "too large": b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
    "no size": b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
    "no keys": b"{'descr': '<f4'}",
}


def _broken(name: str) -> bytes:
    whole = io.BytesIO()
    np.savez(whole, a=np.ones(1000, np.float32))
    data = bytearray(whole.getvalue())
    entry = data.find(b"PK\1\2")
    if name in HEADERS:
        header = HEADERS[name]
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("a.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header)
        return archive.getvalue()
    if name == "objects":
        np.savez(objects := io.BytesIO(), a=np.array([{}], dtype=object))
        return objects.getvalue()
    if name == "encrypted":
        data[6] |= 1
        data[entry + 8] |= 1
    if name == "compressed in an unknown way":
        data[entry + 10] = 99
    if name == "changed":
        data[300] ^= 0xFF
    return {"empty": b"", "cut off": bytes(data[:2000]), "text": b"a = 1\n"}.get(name, bytes(data))


@pytest.mark.parametrize(
    "name",
    ["empty", "cut off", "text", "changed", "encrypted", "compressed in an unknown way", "objects", *HEADERS],
)
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "in.npz").write_bytes(_broken(name))
    with pytest.raises(ShardingError, match="inputs cannot be read from") as caught:
        load_inputs(tmp_path / "in.npz")
    assert caught.value.diagnostic.cause
    assert caught.value.diagnostic.remedy == "write them with numpy.savez"


def test_given_by_name_and_by_number(tmp_path: Path) -> None:
    named: dict[str, Any] = {"a": np.zeros(3, np.float32), "1": np.ones(3, np.float32)}
    np.savez(tmp_path / "in.npz", **named)
    type = TensorType((3,), "f32")
    arrays = make_inputs([type, type, type], ["a", "b", "c"], given=load_inputs(tmp_path / "in.npz"))
    assert [array.tolist() for array in arrays[:2]] == [[0, 0, 0], [1, 1, 1]]
    np.savez(tmp_path / "positional.npz", np.zeros(3, np.float32))
    assert list(load_inputs(tmp_path / "positional.npz")) == ["0"]


def test_given_ones_must_fit(tmp_path: Path) -> None:
    type = TensorType((3,), "f32")
    with pytest.raises(ShardingError, match="shape"):
        make_inputs([type], ["a"], given={"a": np.zeros(4, np.float32)})
    with pytest.raises(ShardingError, match="float64"):
        make_inputs([type], ["a"], given={"a": np.zeros(3)})
    with pytest.raises(ShardingError, match="belong to no argument"):
        make_inputs([type], ["a"], given={"b": np.zeros(3, np.float32)})
    with pytest.raises(ShardingError, match="cannot be read"):
        load_inputs(tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(ShardingError, match="cannot be read"):
        load_inputs(tmp_path / "text.npz")
    np.save(tmp_path / "single.npy", np.zeros(3))
    with pytest.raises(ShardingError, match="single array"):
        load_inputs(tmp_path / "single.npy")


def test_tokens_have_no_values() -> None:
    with pytest.raises(ShardingError, match="no values"):
        make_inputs([TensorType(None, "!stablehlo.token")], ["t"])
