"""Reading and writing files and standard streams: whole or not at all, and every failure a diagnostic."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.process import unfinished, write_descriptor
from shardwright.words import kind_of

__all__ = [
    "check_path",
    "is_standard_output",
    "make_folder",
    "not_a_path",
    "printable",
    "read_file",
    "standard_input",
    "write_file",
    "write_files",
]

_STANDARD_OUTPUT = frozenset(("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"))
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_FSYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


def read_file(path: str) -> bytes:
    """The bytes of a file; `-` is standard input.

    Raises:
        ShardingError: a file that cannot be read.
    """
    try:
        return standard_input() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise ShardingError(
            f"cannot read {printable(path)!r}",
            location=printable(path) if isinstance(error, OSError) else "",
            cause=_reason(error),
            remedy="give the path of a readable StableHLO file (text, bytecode or portable artifact)",
        ) from None


def standard_input() -> bytes:
    """All of standard input, however slowly it comes.

    Raises:
        OSError: it cannot be read.
    """
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    parts: list[bytes] = []
    while (part := sys.stdin.buffer.read()) != b"":
        if part is None:  # it does not block, and there is nothing yet
            select.select([sys.stdin], [], [])
        else:
            parts.append(part)
    return b"".join(parts)


def printable(path: str) -> str:
    """A path as text, for diagnostics and locations: bytes that are no UTF-8 cannot be written there."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def is_standard_output(path: str) -> bool:
    """Whether output to `path` goes where the answers go: `-`, `/dev/stdout` and its other names."""
    return path in _STANDARD_OUTPUT


def not_a_path(path: object) -> ShardingError:
    """What to say of something else where a path is needed."""
    return ShardingError(
        f"not a path: {path!r}"[:200], cause=f"it is {kind_of(path)}", remedy="give a string or a pathlib.Path"
    )


def check_path(path: object) -> None:
    """Refuse what is no path.

    Raises:
        ShardingError: it is none.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise not_a_path(path)


def write_file(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write `content`, text as UTF-8; a file that exists is replaced at once when all is on the disk.

    On failure it stays as it was. Its mode is kept, a link is followed, and what is no file (a pipe, a device, an open
    descriptor) is written to as it is.

    Raises:
        ShardingError: a place that cannot be written, or what is no path.
    """
    check_path(path)
    write_files({os.fsdecode(path): content})
    return Path(os.fsdecode(path))


def write_files(contents: Mapping[str, str | bytes]) -> None:
    """Write several files as `write_file`; none is replaced before all are on the disk.

    Raises:
        ShardingError: a place that cannot be written; then all are as they were.
    """
    ready: list[tuple[str, Path, Path]] = []  # path, what was written, what it is to replace
    path = ""
    try:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            if _is_replaced(path):
                target = Path(os.path.realpath(path))
                ready.append((path, _write_beside(target, data), target))
            else:
                _write_through(path, data)
        for path, part, target in ready:  # noqa: B007  # told where it fails
            part.replace(target)
    except (OSError, ValueError) as error:
        raise ShardingError(
            f"cannot write {printable(path)!r}",
            location=printable(path) if isinstance(error, OSError) else "",
            cause=_reason(error),
            remedy=_write_remedy(error),
        ) from None
    finally:
        _remove(part for _, part, _ in ready)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """The folder at `path`, made where it is missing.

    Raises:
        ShardingError: a folder that cannot be made.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ShardingError(
            f"cannot make the folder {os.fspath(path)!r}",
            cause=_reason(error),
            remedy="give another place with -o",
        ) from None
    return Path(path)


def _is_replaced(path: str) -> bool:
    """Whether a path is that of a file, or of none yet; not that of an open descriptor, such as `/dev/stdout`."""
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return True
    link = Path(os.path.abspath(path))
    while is_file and link.is_symlink():  # links that end, as `stat` has followed them
        if link.is_relative_to("/dev/fd") or link.is_relative_to("/proc"):
            return False
        link = Path(os.path.abspath(link.parent / link.readlink()))
    return is_file


def _write_through(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        write_descriptor(descriptor, data)
    finally:
        os.close(descriptor)


def _write_beside(target: Path, data: bytes) -> Path:
    """A new file in the folder of `target`, with its mode and owner, that holds `data` on the disk."""
    before = target.stat() if target.exists() else None
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    part = target.with_name(f".shardwright-{os.urandom(8).hex()}.part")
    unfinished.add(part)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            if before is not None:
                _take_after(descriptor, before)
            write_descriptor(descriptor, data)
            _to_disk(descriptor)
        finally:
            os.close(descriptor)  # some file systems tell only now that the disk or the quota is full
    except BaseException:
        _remove([part])
        raise
    return part


def _take_after(descriptor: int, before: os.stat_result) -> None:
    with suppress(PermissionError):  # only root gives files away
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _to_disk(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise


def _remove(parts: Iterable[Path]) -> None:
    for part in parts:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        unfinished.discard(part)


def _write_remedy(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _FULL:
        return "make room there, or give a path on another disk"
    return "give a path in a folder that exists and can be written"


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
