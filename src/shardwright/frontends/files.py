"""Reading and writing files: whole or not at all, and every failure a diagnostic."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shardwright.errors import ShardingError

__all__ = ["make_folder", "not_a_path", "read_file", "write_file"]


def read_file(path: str) -> bytes:
    """The bytes of a file; `-` is standard input.

    Raises:
        ShardingError: a file that cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise ShardingError(
            f"cannot read {path!r}",
            location=path if isinstance(error, OSError) else "",
            cause=_reason(error),
            remedy="give the path of a readable StableHLO file (text, bytecode or portable artifact)",
        ) from None


def not_a_path(path: object) -> ShardingError:
    """What to say of something else where a path is needed."""
    return ShardingError(
        f"not a path: {path!r}"[:200], cause=f"it is a {type(path).__name__}", remedy="give a string or a pathlib.Path"
    )


def write_file(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text`; a file that exists is replaced at once when all is written, and stays as it was on failure.

    Raises:
        ShardingError: a place that cannot be written, or what is no path.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise not_a_path(path)
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():  # /dev/stdout and the like; a folder fails here
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except (OSError, ValueError) as error:
        raise ShardingError(
            f"cannot write {os.fspath(path)!r}",
            location=os.fspath(path) if isinstance(error, OSError) else "",
            cause=_reason(error),
            remedy="give a path in a folder that exists and can be written",
        ) from None
    return Path(path)


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


def _replace(target: Path, text: str) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
