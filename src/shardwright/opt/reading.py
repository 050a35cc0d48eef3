"""Reading a module in any notation of ours, with MLIR's own diagnostics for what does not parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.files import standard_input
from shardwright.ir.context import check_text, context, ir, load_module
from shardwright.ir.walk import walk
from shardwright.notation.conversion import as_generic
from shardwright.notation.module_notations import notation_of
from shardwright.notation.notation import ModuleNotation
from shardwright.notation.sdy.verify import verify
from shardwright.opt.diagnostics import Text

__all__ = ["OUR_DIALECTS", "Generic", "decoded", "read_input", "read_module"]

OUR_DIALECTS = ("mesh", "shard", "shardwright")
"""Dialects that jaxlib has not registered and that our notations and passes know."""

_NOT_ONE = "source must contain a single top-level operation"
_OURS = re.compile(rf'[#!"](?:{"|".join(OUR_DIALECTS)})\.')


class Generic:
    """A module's text, told apart and made ready for MLIR.

    Attributes:
        notation: What it is written in.
        spelling: The notation to print it in; bytecode tells its own only when it is printed.
        content: What MLIR is to parse.
        text: For showing its lines.
        is_alone: Whether it is read as one op that is no module, and that the module holds for the passes only.
    """

    def __init__(self, content: str | bytes, name: str) -> None:
        """Tell a module's notation, and rewrite its custom syntax.

        Raises:
            ShardingError: what the dialect forbids, at its line.
        """
        self.notation: ModuleNotation = notation_of(content)
        self.spelling = self.notation if isinstance(content, str) else None
        self.content = as_generic(content, name, self.notation)
        self.is_alone = False
        given = content if isinstance(content, str) else ""
        self.text = Text(name, given, self.content if isinstance(self.content, str) else "")


def read_input(path: str) -> bytes:
    """The bytes of a file; `-` is standard input.

    Raises:
        ShardingError: a file that cannot be read, in MLIR's words.
    """
    try:
        if path != "-":
            return Path(path).read_bytes()
        return standard_input()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ShardingError(
            f"cannot open input file {path!r}: {reason}",
            remedy="give the path of a readable file, or - for standard input",
        ) from None


def decoded(content: bytes) -> str | bytes:
    """Text as such; bytecode, and what is neither, as it is."""
    try:
        return content if content.startswith(b"ML\xefR") else content.decode()
    except UnicodeDecodeError:
        return content


def read_module(generic: Generic, *, allow_unregistered: bool, no_implicit_module: bool = False) -> ir.Module:
    """Parse and verify a module.

    Raises:
        ShardingError: what does not parse or verify, or an unknown dialect that is not allowed; `__context__` is MLIR's
            own error where it said it.
    """
    if no_implicit_module:
        generic.is_alone = _is_alone(generic)
    module = _parsed(generic, allow_unregistered)
    if generic.notation.name == "sdy":
        verify(module, generic.text.name, generic.content, one_size=False)  # a program's own matter, not a module's
    return module


def _parsed(generic: Generic, allow_unregistered: bool) -> ir.Module:
    name = generic.text.name
    if allow_unregistered:
        return load_module(generic.content, name)
    with _registered_only():
        try:
            return load_module(generic.content, name)
        except ShardingError:
            if not _says_ours(generic.content):
                raise
    module = load_module(generic.content, name)
    _refuse_unregistered(module)
    return module


def _is_alone(generic: Generic) -> bool:
    """Whether a text, where it parses, is one op that is no module; bytecode is read as a module.

    Raises:
        ShardingError: several ops, or none, or what the parser would not survive.
    """
    if isinstance(generic.content, bytes):
        return False
    check_text(generic.content, generic.text.name)
    try:
        op = ir.Operation.parse(generic.content, context=context())
    except ir.MLIRError as error:
        message = error.error_diagnostics[0].message
        if message.startswith(_NOT_ONE):
            raise ShardingError(message, location=generic.text.name) from None
        return False
    return bool(op.operation.name != "builtin.module")


@contextmanager
def _registered_only() -> Iterator[None]:
    context().allow_unregistered_dialects = False
    try:
        yield
    finally:
        context().allow_unregistered_dialects = True


def _says_ours(content: str | bytes) -> bool:
    if isinstance(content, bytes):
        return any(dialect.encode() in content for dialect in OUR_DIALECTS)
    return _OURS.search(content) is not None


def _refuse_unregistered(module: ir.Module) -> None:
    """Refuse the first op of a dialect that neither jaxlib nor we know."""
    known: dict[str, bool] = {}
    unregistered: list[tuple[str, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect = op.name.partition(".")[0]
        if dialect not in known:
            known[dialect] = dialect in OUR_DIALECTS or context().is_registered_operation(op.name) or _exists(dialect)
        if known[dialect]:
            return ir.WalkResult.ADVANCE
        unregistered.append((op.name, str(op.location).removeprefix("loc(").removesuffix(")").replace('"', "")))
        return ir.WalkResult.INTERRUPT

    walk(module.operation, visit, outer_first=True)
    if unregistered:
        name, where = unregistered[0]
        raise ShardingError(
            "operation being parsed with an unregistered dialect. If this is intended, please use "
            "-allow-unregistered-dialect with the MLIR tool used",
            location=where,
            cause=f"the operation is '{name}'",
        )


def _exists(dialect: str) -> bool:
    try:
        context().get_dialect_descriptor(dialect)
    except ValueError:
        return False
    return True
