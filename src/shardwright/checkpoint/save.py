"""Writing arrays, each process its own shards: aside first, and in place of what was there when all are on the disk.

A folder has one file for each process and save, whose names begin with a token of the save, and an index that names the
files of one save. The index is replaced at the end, in one step: whatever ends a save before leaves the old one whole.
Files that no index names are removed by the next save.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardwright.checkpoint.index import INDEX, Piece, Stored, index_text, is_covered, key_of
from shardwright.checkpoint.safetensors import dtype_code, read_header, write_tensors
from shardwright.checkpoint.together import check_all_did, common_token
from shardwright.checkpoint.trees import named_leaves
from shardwright.errors import ShardingError
from shardwright.files import check_path, write_file

__all__ = ["save_arrays"]

_OWN_FILE = re.compile(r"[0-9a-f]{16}-\d{5}-of-\d{5}\.safetensors(\.part)?")

_A_PART = re.compile(r"@\d+:\d+(,\d+:\d+)*$")
"""How the name of a part of an array ends; see `key_of`."""

FORMATS = ("safetensors", "orbax")


def save_arrays(path: str | os.PathLike[str], arrays: Any, *, format: str = "safetensors") -> Path:
    """Write a pytree of arrays to a folder, each process its own shards.

    A checkpoint that is there is replaced at the end, in one step: a write that is interrupted, by whatever signal or
    crash, leaves it as it was. Where `jax.distributed` has joined processes, all must call this, with the same names,
    and see the same folder. Of copies one is written.

    Arguments:
        path: The folder; it is made where it is missing.
        arrays: A pytree of arrays, such as parameters and optimizer state. An array is called by the way to it, such as
            `params/w1`. What is no `jax.Array` over several processes is taken to be the same in all.
        format: `safetensors`, a file for each process and an index, or `orbax`, for which `orbax-checkpoint` must be
            installed, and the folder must not be there yet.

    Returns:
        The folder.

    Raises:
        ShardingError: a place that cannot be written, elements that the format has no word for, an array that awaits a
            sum, or another process that has failed.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from shardwright.checkpoint import load_arrays
        >>> folder = save_arrays(tempfile.mkdtemp(), {"params": {"w": np.arange(3)}, "step": 7})
        >>> load_arrays(folder)["params/w"]
        array([0, 1, 2])
    """
    check_path(path)
    if format not in FORMATS:
        raise ShardingError(f"no such format: {format!r}", remedy=f"one of {', '.join(FORMATS)}")
    folder = Path(os.fsdecode(path))
    leaves, _ = named_leaves(arrays)
    for name, leaf in leaves.items():
        _check_complete(name, leaf)
    if format == "orbax":
        from shardwright.checkpoint.orbax import save_tree

        save_tree(folder, arrays)
        return folder
    _save(folder, {name: leaf if isinstance(leaf, jax.Array) else np.asarray(leaf) for name, leaf in leaves.items()})
    return folder


def _save(folder: Path, arrays: dict[str, Any]) -> None:
    codes = {name: dtype_code(_dtype(name, array), name) for name, array in arrays.items()}
    token = common_token()
    own, files = jax.process_index(), [_file_name(token, number) for number in range(jax.process_count())]

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        _write_shards(folder / files[own], arrays, codes)
        _folder_to_disk(folder)

    def replace() -> None:
        if own == 0:
            write_file(folder / INDEX, index_text(_stored(folder, files, arrays, codes)))

    try:
        check_all_did("write its shards", _failure(folder, write))
        check_all_did("write the index", _failure(folder, replace))
    except ShardingError:
        with suppress(OSError, ValueError):  # there may be no such place
            (folder / files[own]).unlink()
        raise
    if own == 0:
        _tidy(folder, files)


def _failure(folder: Path, act: Callable[[], None]) -> ShardingError | None:
    """Why something could not be done, if so."""
    try:
        act()
    except ShardingError as error:
        return error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        return ShardingError(
            f"cannot write the checkpoint {str(folder)!r}",
            location=str(folder),
            cause=(error.strerror if isinstance(error, OSError) else None) or str(error),
            remedy="give a folder that can be written and has room; what was there before is as it was",
        )
    return None


def _write_shards(path: Path, arrays: dict[str, Any], codes: dict[str, str]) -> None:
    """Write the shards that this process is to write, and be sure that they are on the disk."""
    shards = {
        key_of(name, data.shape, start, array.shape): (codes[name], data)
        for name, array in arrays.items()
        for start, data in _own_shards(array)
    }
    part = path.with_name(f"{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        tensors = {key: (code, tuple(data.shape)) for key, (code, data) in shards.items()}
        write_tensors(descriptor, tensors, lambda key: np.asarray(shards[key][1]))
        os.fsync(descriptor)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    part.replace(path)


def _own_shards(array: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Where each shard begins that this process is to write, and the shard: of copies that of one device."""
    is_spread = isinstance(array, jax.Array) and not array.is_fully_addressable
    if not is_spread and jax.process_index() != 0:
        return
    if not isinstance(array, jax.Array):
        yield (0,) * array.ndim, array
        return
    for shard in array.addressable_shards:
        if shard.replica_id == 0:
            yield tuple(part.start or 0 for part in shard.index), shard.data


def _stored(folder: Path, files: Sequence[str], arrays: dict[str, Any], codes: dict[str, str]) -> dict[str, Stored]:
    """What all processes have written.

    Raises:
        ShardingError: not all of the same arrays.
    """
    pieces: dict[str, list[Piece]] = {name: [] for name in arrays}
    for file in files:
        for key, entry in read_header(folder / file).items():
            name, start = _named(key, arrays)
            pieces.setdefault(name, []).append(Piece(folder / file, key, start or (0,) * len(entry.shape), entry))
    stored = {name: Stored(codes[name], tuple(array.shape), tuple(pieces[name])) for name, array in arrays.items()}
    apart = [name for name in pieces if name not in stored or not is_covered(stored[name])]
    if apart:
        raise ShardingError(
            f"processes have not written the same array {apart[0]!r}",
            location=str(folder),
            cause="some have it in another shape or type, or not at all",
            remedy="give every process the same arrays by the same names",
        )
    return stored


def _tidy(folder: Path, files: Sequence[str]) -> None:
    """Remove the files of other saves. The checkpoint is in its place, and none the worse where that cannot be done."""
    with suppress(OSError):
        _folder_to_disk(folder)
        for file in folder.iterdir():
            if _OWN_FILE.fullmatch(file.name) and file.name not in files:
                file.unlink(missing_ok=True)


def _named(key: str, arrays: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    """The array of which a file has a part, and where that begins; of a whole one nothing is said."""
    if key in arrays:
        return key, ()
    name, _, slices = key.rpartition("@")
    return name, tuple(int(part.partition(":")[0]) for part in slices.split(","))


def _file_name(token: str, process: int) -> str:
    return f"{token}-{process:05d}-of-{jax.process_count():05d}.safetensors"


def _folder_to_disk(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_complete(name: str, leaf: Any) -> None:
    """Refuse what has no elements to write, or no name to write it under."""
    if _A_PART.search(name):
        raise ShardingError(
            f"an array cannot be called {name!r}", cause="parts of arrays are called so", remedy="call it otherwise"
        )
    sharding = getattr(leaf, "sharding", None)
    if isinstance(sharding, jax.sharding.NamedSharding) and sharding.spec.unreduced:
        raise ShardingError(
            f"array {name!r} awaits a sum, and cannot be written",
            cause=f"it is laid out as {sharding.spec}: what devices hold are contributions",
            remedy="let the program reduce it",
        )
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        raise ShardingError(
            f"array {name!r} cannot be written: it was donated to a program",
            remedy="write what that program has returned, or write before it is called",
        )


def _dtype(name: str, array: Any) -> np.dtype[Any]:
    if isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise ShardingError(
            f"array {name!r} cannot be written: it has random keys",
            cause="files have numbers, and no generators",
            remedy="write jax.random.key_data(key), and make keys of it by jax.random.wrap_key_data",
        )
    dtype: np.dtype[Any] = np.dtype(array.dtype)
    return dtype
