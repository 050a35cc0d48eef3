"""The format of one file: a header that says what is where, and then bytes (https://huggingface.co/docs/safetensors).

It is written and read here, not by the library of that name: that takes tensors whole, where a process has slices,
writes them all at once, and gives numpy no `bfloat16`. Any reader of the format can open what is written.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.runtime.arrays import Array, dtype_from_name, dtype_name

__all__ = ["Entry", "dtype_code", "dtype_of", "mapped", "read_header", "write_tensors"]

_NAMES = {
    "BOOL": "bool",
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "BF16": "bfloat16",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_CODES = {name: code for code, name in _NAMES.items()}

_LENGTH = struct.Struct("<Q")
_LARGEST_HEADER = 100_000_000
"""Bytes of the largest header that readers of the format take."""
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file.

    Attributes:
        dtype: Its element type, as the format calls it.
        shape: Its shape.
        start: Where its bytes begin in the file.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def bytes(self) -> int:
        """How many bytes it has."""
        return math.prod(self.shape) * dtype_of(self.dtype).itemsize


def dtype_code(dtype: np.dtype[Any], name: str) -> str:
    """What the format calls a type of elements.

    Raises:
        ShardingError: it has no word for it.
    """
    code = _CODES.get(dtype_name(dtype))
    if code is None:
        raise ShardingError(
            f"array {name!r} cannot be written: it has elements of type {dtype}",
            cause=f"the format safetensors has {', '.join(_CODES)}",
            remedy="convert it to one of these; of random keys, write jax.random.key_data(key)",
        )
    return code


def dtype_of(code: str) -> np.dtype[Any]:
    """The numpy type of what the format calls so."""
    return dtype_from_name(_NAMES[code])


def write_tensors(
    descriptor: int, tensors: Mapping[str, tuple[str, tuple[int, ...]]], bytes_of: Callable[[str], Array]
) -> None:
    """Write tensors to an open file, one after the other, so that one alone is in memory.

    Arguments:
        descriptor: The file.
        tensors: Type and shape of each, by name.
        bytes_of: The elements of the tensor of a name.

    Raises:
        OSError: not all could be written.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * dtype_of(dtype).itemsize
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    _write(descriptor, _LENGTH.pack(len(text)) + text)
    for name in tensors:
        _write(descriptor, np.ascontiguousarray(bytes_of(name)).reshape(-1).view(np.uint8).data)


def _write(descriptor: int, data: Any) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file by name.

    Raises:
        ShardingError: no such file, or one that is not of this format, or cut off.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            if length > min(size, _LARGEST_HEADER):
                raise ValueError(f"its header would have {length} bytes, the file has {size}")
            return _entries(json.loads(file.read(length)), _LENGTH.size + length, size)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise broken(path, str(error)) from None
    except OSError as error:
        raise ShardingError(
            f"cannot read {str(path)!r}", location=str(path), cause=error.strerror or str(error)
        ) from None


def broken(path: Path, why: str) -> ShardingError:
    """What to say of a file that is not what it should be."""
    return ShardingError(
        f"{str(path)!r} is not a whole safetensors file",
        location=str(path),
        cause=why,
        remedy="copy it again from where it was written, or take an older one",
    )


def _entries(header: Mapping[str, Any], start: int, size: int) -> dict[str, Entry]:
    entries = {}
    for name, value in header.items():
        if name == "__metadata__":
            continue
        if value["dtype"] not in _NAMES:
            raise ValueError(f"tensor {name!r} has elements of type {value['dtype']}, which numpy does not have")
        begin, end = value["data_offsets"]
        entry = Entry(value["dtype"], tuple(map(int, value["shape"])), start + begin)
        if min((*entry.shape, begin)) < 0 or end - begin != entry.bytes:
            raise ValueError(f"tensor {name!r} of {entry.bytes} bytes is said to have {end - begin}")
        if start + end > size:
            raise ValueError(f"tensor {name!r} ends at byte {start + end}, the file has {size}")
        entries[name] = entry
    return entries


def mapped(path: Path, entry: Entry) -> Array:
    """The elements of a tensor as a file has them: what is not looked at is not read."""
    dtype = dtype_of(entry.dtype)
    if not entry.bytes:
        return np.zeros(entry.shape, dtype)
    held = np.memmap(path, np.uint8, "r", entry.start, (entry.bytes,))
    return np.asarray(held).view(dtype).reshape(entry.shape)
