"""What a checkpoint holds: each array by name, and which file has which part of it.

The index of a folder is `shardwright.json`; it is written when all else is on the disk, so what it names is whole.
Files of safetensors that others have written have no such index, and are read by their headers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwright.checkpoint.safetensors import Entry, read_header
from shardwright.errors import ShardingError

__all__ = ["INDEX", "Piece", "Stored", "index_text", "is_covered", "key_of", "read_index"]

INDEX = "shardwright.json"
_FORMAT = "shardwright.arrays"
_VERSION = 1
_WHOLE_TENSORS = "*.safetensors.index.json"
"""How the index of a checkpoint is called whose files hold whole tensors, as those of language models come."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an array.

    Attributes:
        file: Where it is, within the folder.
        key: What it is called there.
        start: Its first element in each dimension of the array.
        entry: Its type, its shape, and its place in the file.
    """

    file: Path
    key: str
    start: tuple[int, ...]
    entry: Entry


@dataclass(frozen=True, slots=True)
class Stored:
    """An array on disk.

    Attributes:
        dtype: Its element type, as safetensors calls it.
        shape: Its global shape.
        pieces: What it is made of; they cover it, and do not overlap.
    """

    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


def key_of(name: str, shape: Sequence[int], start: Sequence[int], whole: Sequence[int]) -> str:
    """What a part of an array is called in its file: `params/w@0:8,16:32`, or by the array's name where it is all."""
    if tuple(shape) == tuple(whole):
        return name
    return f"{name}@{','.join(f'{begin}:{begin + size}' for begin, size in zip(start, shape, strict=True))}"


def index_text(arrays: Mapping[str, Stored]) -> str:
    """The index of a folder."""
    return json.dumps(
        {
            "format": _FORMAT,
            "version": _VERSION,
            "arrays": {
                name: {
                    "dtype": array.dtype,
                    "shape": array.shape,
                    "pieces": [
                        {"file": piece.file.name, "tensor": piece.key, "start": piece.start} for piece in array.pieces
                    ],
                }
                for name, array in arrays.items()
            },
        },
        indent=1,
    )


def read_index(path: Path) -> dict[str, Stored]:
    """The arrays of a checkpoint by name: of a folder that `save_arrays` wrote, or of others' files of safetensors.

    Raises:
        ShardingError: there is no checkpoint, it is of a later version, or not whole.
    """
    if path.is_file():
        return _whole_tensors([path])
    if (path / INDEX).is_file():
        return _read_own(path)
    is_folder = path.is_dir()
    indices = sorted(path.glob(_WHOLE_TENSORS)) if is_folder else []
    if indices:
        return _whole_tensors([_beside(path, name) for name in _files_named(indices[0])])
    files = sorted(path.glob("*.safetensors")) if is_folder else []
    if len(files) == 1:
        return _whole_tensors(files)
    raise ShardingError(
        f"no checkpoint: {str(path)!r}",
        location=str(path),
        cause=f"it has no {INDEX}, no {_WHOLE_TENSORS}, and {len(files)} files of safetensors"
        if is_folder
        else "there is no such file or folder",
        remedy="give the folder that save_arrays wrote, one of Orbax, or a file of safetensors",
    )


def _whole_tensors(files: Sequence[Path]) -> dict[str, Stored]:
    return {
        name: Stored(entry.dtype, entry.shape, (Piece(file, name, (0,) * len(entry.shape), entry),))
        for file in files
        for name, entry in read_header(file).items()
    }


def _files_named(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _malformed(index, f"{type(error).__name__}: {error}") from None


def _read_own(folder: Path) -> dict[str, Stored]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text())
        if index["format"] != _FORMAT:
            raise _malformed(path, f"its format is {index['format']!r}, not {_FORMAT!r}")
        if index["version"] > _VERSION:
            raise ShardingError(
                f"the checkpoint is of version {index['version']}, this shardwright reads up to {_VERSION}",
                location=str(path),
                remedy="read it with the shardwright that wrote it, or a later one",
            )
        headers: dict[Path, dict[str, Entry]] = {}
        return {name: _stored(folder, name, value, headers) for name, value in index["arrays"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _malformed(path, f"{type(error).__name__}: {error}") from None


def _stored(folder: Path, name: str, value: Mapping[str, Any], headers: dict[Path, dict[str, Entry]]) -> Stored:
    shape = tuple(map(int, value["shape"]))
    pieces = []
    for given in value["pieces"]:
        file = _beside(folder, given["file"])
        if file not in headers:
            headers[file] = read_header(file)
        if given["tensor"] not in headers[file]:
            raise _malformed(folder / INDEX, f"{file.name} has no {given['tensor']!r}")
        pieces.append(Piece(file, given["tensor"], tuple(map(int, given["start"])), headers[file][given["tensor"]]))
    stored = Stored(value["dtype"], shape, tuple(pieces))
    if not is_covered(stored):
        raise _malformed(folder / INDEX, f"the parts of {name!r} are not those of an array of shape {list(shape)}")
    return stored


def is_covered(array: Stored) -> bool:
    """Whether the pieces are the cells of a grid over the array, as shards are, each of them once."""
    starts, rank = {piece.start for piece in array.pieces}, len(array.shape)
    if any(len(piece.start) != rank or len(piece.entry.shape) != rank for piece in array.pieces):
        return False
    cuts = [sorted({start[dim] for start in starts} | {size}) for dim, size in enumerate(array.shape)]
    if not math.prod(array.shape):  # of nothing, one piece is as good as none
        return all(piece.entry.shape == array.shape for piece in array.pieces)
    is_grid = len(starts) == math.prod(len(cut) - 1 for cut in cuts) and all(cut[0] == 0 for cut in cuts)
    if not is_grid or len(array.pieces) != len(starts):
        return False
    return all(piece.entry.dtype == array.dtype and _is_cell(piece, cuts) for piece in array.pieces)


def _is_cell(piece: Piece, cuts: Sequence[Sequence[int]]) -> bool:
    """Whether a piece is between two cuts next to each other, in each dimension."""
    cells = zip(piece.start, piece.entry.shape, cuts, strict=True)
    return all(begin + size in cut[cut.index(begin) + 1 :][:1] for begin, size, cut in cells)


def _beside(folder: Path, name: str) -> Path:
    """A file of a folder by its name, which leads nowhere else."""
    if Path(name).name != name:
        raise _malformed(folder, f"it names a file elsewhere: {name!r}")
    return folder / name


def _malformed(path: Path, why: str) -> ShardingError:
    return ShardingError(
        f"the checkpoint's index cannot be read: {str(path)!r}",
        location=str(path),
        cause=why,
        remedy="copy the folder again from where it was written, or take an older one",
    )
