"""Modules as the flags ask for them: text in the notation they came in, or bytecode; and writing all of it at once."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.notation.conversion import ModuleNotation, notation_of
from shardwright.opt.flags import Settings

__all__ = ["bytecode", "text_of", "write_output"]


def text_of(module: ir.Module, settings: Settings, notation: ModuleNotation | None, name: str) -> str:
    """A module as text that ends with a line break, in `notation` or the one it is seen to be in.

    Positions in what was parsed get the file's `name`.
    """
    elided = settings.mlir_elide_elementsattrs_if_larger
    text = str(
        module.operation.get_asm(
            enable_debug_info=settings.mlir_print_debuginfo or settings.mlir_pretty_debuginfo,
            pretty_debug_info=settings.mlir_pretty_debuginfo,
            print_generic_op_form=settings.mlir_print_op_generic,
            use_local_scope=settings.mlir_print_local_scope,
            large_elements_limit=None if elided is None else int(elided),
        )
    )
    if not settings.mlir_print_op_generic:
        text = (notation or notation_of(text)).spell(text)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace('loc("-":', f'loc("{quoted}":').rstrip("\n") + "\n"


def bytecode(module: ir.Module) -> bytes:
    """A module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def write_output(path: str, content: bytes) -> None:
    """Write to a file, or to standard output for `-`; a file is replaced when all is written, or stays as it was.

    Raises:
        ShardingError: a place that cannot be written.
    """
    if path == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():  # /dev/null and the like; a folder fails here
            target.write_bytes(content)
        else:
            _replace(target, content)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise ShardingError(
            f"cannot open output file {path!r}",
            cause=(error.strerror if isinstance(error, OSError) else None) or str(error),
            remedy="give a path in a folder that exists and can be written",
        ) from None


def _replace(target: Path, content: bytes) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        if target.exists():
            part.chmod(target.stat().st_mode & 0o7777)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
