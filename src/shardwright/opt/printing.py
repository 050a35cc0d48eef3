"""Modules as the flags ask for them: text in the notation they came in, or bytecode; and writing all of it at once."""

from __future__ import annotations

import io
import re
import sys

from shardwright.errors import ShardingError
from shardwright.files import is_standard_output, write_file
from shardwright.ir.context import ir
from shardwright.notation.module_notations import notation_of
from shardwright.notation.notation import ModuleNotation
from shardwright.opt.flags import Settings
from shardwright.process import finish_output, forget

__all__ = ["bytecode", "text_of", "write_output"]

_PRETTY_LOCATION = re.compile(r"(?<=[ \[])-(?=:\d+:\d+(?:$|[]),]| at ))", re.MULTILINE)
"""What locations for people call the text that was parsed."""


def text_of(op: ir.Operation, settings: Settings, notation: ModuleNotation | None, name: str) -> str:
    """A module's op as text that ends with a line break, in `notation` or the one it is seen to be in.

    Positions in what was parsed get the file's `name`.
    """
    text = str(
        op.get_asm(
            enable_debug_info=settings.mlir_print_debuginfo,
            pretty_debug_info=settings.mlir_pretty_debuginfo,
            print_generic_op_form=settings.mlir_print_op_generic,
            use_local_scope=settings.mlir_print_local_scope,
            use_name_loc_as_prefix=settings.mlir_use_nameloc_as_prefix,
            skip_regions=settings.mlir_print_skip_regions,
            large_elements_limit=_number(settings.mlir_elide_elementsattrs_if_larger),
            large_resource_limit=_number(settings.mlir_elide_resource_strings_if_larger),
        )
    )
    if not settings.mlir_print_op_generic:
        text = (notation or notation_of(text)).spell(text)
    if settings.mlir_print_debuginfo and settings.mlir_pretty_debuginfo:
        text = _PRETTY_LOCATION.sub(lambda _: name, text)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace('loc("-":', f'loc("{quoted}":').rstrip("\n") + "\n"


def bytecode(op: ir.Operation, version: str | None = None) -> bytes:
    """A module's op as MLIR bytecode, of the version asked for.

    Raises:
        ValueError: a version that MLIR does not write, of which it has said so.
    """
    buffer = io.BytesIO()
    op.write_bytecode(buffer, desired_version=_number(version))
    return buffer.getvalue()


def _number(number: str | None) -> int | None:
    return None if number is None else int(number)


def write_output(path: str, content: bytes) -> None:
    """Write to a file, or to standard output for `-`; a file is replaced when all is written, or stays as it was.

    Raises:
        ShardingError: a place that cannot be written.
    """
    if is_standard_output(path):
        _write_standard_output(content)
        return
    try:
        write_file(path, content)
    except ShardingError as error:
        raise error.replaced(message=f"cannot open output file {path!r}", location="") from None


def _write_standard_output(content: bytes) -> None:
    """A pipe that is closed is no error: who reads it has read enough."""
    try:
        sys.stdout.buffer.write(content)
        finish_output()
    except BrokenPipeError:
        raise
    except OSError as error:
        forget(1)
        raise ShardingError(
            "cannot write to standard output",
            cause=error.strerror or "",
            remedy="make room, or write to a file with -o FILE",
        ) from None
