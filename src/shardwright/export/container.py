"""The file of an exported program: an archive of a manifest, in JSON, and of portable artifacts of StableHLO.

Nothing in it is run when it is read, and there is no pickle. It is written whole or not at all.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwright.errors import ShardingError
from shardwright.files import check_path, printable, read_file, write_file

__all__ = ["FORMAT", "VERSION", "Container", "malformed", "read_container", "write_container"]

FORMAT = "shardwright.export"
VERSION = 1

_MANIFEST = "manifest.json"
_STAGES = ("propagated", "local")
_MOMENT = (1980, 1, 1, 0, 0, 0)
"""The time that archives give to what they hold: always the same, so that one program is one file."""
_LARGEST = 1 << 32
"""Bytes that a member may come to, of which an archive says how many it has before they are unpacked."""


@dataclass(frozen=True, slots=True)
class Container:
    """What a file holds.

    Attributes:
        manifest: What there is to know of the program, as JSON has it.
        modules: The portable artifact of each stage, `propagated` and `local`.
    """

    manifest: dict[str, Any]
    modules: dict[str, bytes]


def write_container(path: str | os.PathLike[str], container: Container) -> Path:
    """Write a file.

    Raises:
        ShardingError: a place that cannot be written.
    """
    check_path(path)
    members = {_MANIFEST: json.dumps(container.manifest, indent=1, allow_nan=False).encode()}
    members |= {f"{stage}.mlirbc": container.modules[stage] for stage in _STAGES}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), data, zipfile.ZIP_DEFLATED)
    return write_file(path, buffer.getvalue())


def read_container(path: str | os.PathLike[str]) -> Container:
    """Read a file.

    Raises:
        ShardingError: one that cannot be read, is none of these, damaged, or of a later version.
    """
    check_path(path)
    name = os.fsdecode(path)
    data = read_file(name)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            manifest = json.loads(_member(archive, _MANIFEST))
            if manifest["format"] != FORMAT:
                raise malformed(name, f"its format is {manifest['format']!r}, not {FORMAT!r}")
            if manifest["version"] > VERSION:
                raise ShardingError(
                    f"the program is exported in version {manifest['version']}, this shardwright reads up to {VERSION}",
                    location=printable(name),
                    remedy="run it with the shardwright that wrote it, or a later one",
                )
            return Container(manifest, {stage: _member(archive, f"{stage}.mlirbc") for stage in _STAGES})
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, NotImplementedError, EOFError) as error:
        raise malformed(name, str(error)) from None


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} would be larger than {_LARGEST} bytes")
    return archive.read(name)


def malformed(name: str, why: str) -> ShardingError:
    """What to say of a file that is not an exported program."""
    return ShardingError(
        "not an exported program, or a damaged one",
        location=printable(name),
        cause=why[:400],
        remedy="give a file that spmd.export(path) wrote",
    )
