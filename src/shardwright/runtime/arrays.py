"""Numpy arrays of MLIR's element types, and their way through files.

`bf16` and friends are no types of numpy's own: `ml_dtypes` adds them, and numpy forgets them in a file. So arrays are
kept there as bytes, beside the name of their type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType

__all__ = ["Array", "dtype_from_name", "dtype_name", "load_arrays", "numpy_dtype", "save_arrays"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_NUMPY = {
    "i1": "bool",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{
        f"f8{name.upper()}": f"float8_{name}"
        for name in ("e3m4", "e4m3", "e4m3fn", "e4m3b11fnuz", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
    },
}
_MLIR = {name.lower(): name for name in _NUMPY}


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy type of an MLIR element type.

    Raises:
        ShardingError: there is none.
    """
    name = _NUMPY.get(_MLIR.get(dtype.lower(), ""))
    if name is None:
        raise ShardingError(f"elements of type {dtype} cannot be given to a device from here")
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name from which `dtype_from_name` makes it again: numpy's or ml_dtypes' own."""
    return str(dtype)


def dtype_from_name(name: str) -> np.dtype[Any]:
    """The type that `dtype_name` calls so."""
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def save_arrays(path: Path, arrays: Sequence[Array]) -> None:
    """Write arrays to one file, bytes and types."""
    heads = [{"dtype": dtype_name(array.dtype), "shape": list(array.shape)} for array in arrays]
    data: dict[str, Any] = {f"a{i}": _bytes(array) for i, array in enumerate(arrays)}
    np.savez(path, heads=np.frombuffer(json.dumps(heads).encode(), np.uint8), **data)


def load_arrays(path: Path) -> list[Array]:
    """Read what `save_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        heads = json.loads(file["heads"].tobytes())
        return [
            file[f"a{i}"].view(dtype_from_name(head["dtype"])).reshape(head["shape"]) for i, head in enumerate(heads)
        ]


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def check_array(array: Array, type: TensorType, name: str) -> Array:
    """`array` as a value of `type`.

    Raises:
        ShardingError: another shape, or an element type that is not the same.
    """
    dtype = numpy_dtype(type.dtype)
    if array.shape != type.dims:
        raise ShardingError(
            f"input {name} has shape {list(array.shape)}, the program takes {list(type.dims)}",
            remedy="give an array of the argument's global shape",
        )
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    raise ShardingError(
        f"input {name} has elements of type {array.dtype}, the program takes {dtype}",
        remedy=f"convert it: array.astype({str(dtype)!r})",
    )
