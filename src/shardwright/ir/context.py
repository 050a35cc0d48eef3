"""The one door to jaxlib's MLIR bindings.

Every private jaxlib module that the compiler needs is imported here and nowhere else. The names used are the same in
jaxlib 0.10, 0.11 and 0.12; what one of them lacks is asked for here (`reduction_kinds`, `is_registered`).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mosaic_gpu_ext
from jaxlib.mlir.dialects import builtin, chlo, func, mhlo, sdy, stablehlo  # noqa: F401 (else imported when first read)

from shardwright.errors import ShardingError

__all__ = [
    "as_text",
    "context",
    "ir",
    "is_registered",
    "load_module",
    "mhlo",
    "module_text",
    "parse_attribute",
    "parse_type",
    "passmanager",
    "reduction_kinds",
    "stablehlo",
]

_MAX_NESTING = 800
"""Brackets within brackets that we let MLIR's recursive parser see; it dies of about 3,000 nested regions."""

_BYTECODE = b"ML\xefR"
_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_NOT_BRACKETS = bytes(set(range(256)) - set(b"()[]{}<>"))


@lru_cache(maxsize=1)
def context() -> ir.Context:
    """The MLIR context of this process, with every dialect jaxlib has. Types and attributes live as long as it."""
    ctx = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    ctx.append_dialect_registry(registry)
    ctx.load_all_available_dialects()
    stablehlo.register_dialect(ctx)
    sdy.register_dialect(ctx)
    chlo.register_dialect(ctx)
    mhlo.register_mhlo_dialect(ctx)
    _mosaic_gpu_ext.register_inliner_extensions(ctx)
    stablehlo.register_stablehlo_passes()
    ctx.allow_unregistered_dialects = True
    return ctx


@cache
def is_registered(op: str) -> bool:
    """Whether MLIR knows an op of this name."""
    return bool(context().is_registered_operation(op))


def reduction_kinds() -> tuple[str, ...]:
    """The kinds of reduction that the installed sdy knows, by the numbers that it has for them; in jaxlib 0.10 sums."""
    operations = getattr(sdy, "ReductionOp", None)
    return ("sum",) if operations is None else tuple(operation.name.lower() for operation in sorted(operations))


def parse_attribute(text: str) -> ir.Attribute:
    """The MLIR attribute written as `text`."""
    return ir.Attribute.parse(text, context=context())


def parse_type(text: str) -> ir.Type:
    """The MLIR type written as `text`."""
    return ir.Type.parse(text, context=context())


def as_text(source: str | bytes, name: str = "-") -> str | bytes:
    """Text as a string; MLIR bytecode and portable artifacts, which are no text, as they are.

    Raises:
        ShardingError: bytes that are neither.
    """
    if isinstance(source, str) or source.startswith(_BYTECODE):
        return source
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        raise ShardingError(
            "the file is neither MLIR text nor MLIR bytecode",
            location=name,
            cause=f"byte {error.start} is not UTF-8 text",
            remedy="give StableHLO text, MLIR bytecode or a StableHLO portable artifact",
        ) from None


def load_module(source: str | bytes, name: str = "-") -> ir.Module:
    """Parse MLIR text, MLIR bytecode or a StableHLO portable artifact.

    Raises:
        ShardingError: with the parser's message and the position in `name`, or for nesting no parser survives.
    """
    content = as_text(source, name)
    try:
        if isinstance(content, bytes):
            return _load_bytecode(content)
        _check_nesting(content.encode(), name)
        return ir.Module.parse(content, context=context())
    except (ir.MLIRError, ValueError) as error:
        raise _parse_error(error, name) from None


def _load_bytecode(data: bytes) -> ir.Module:
    try:
        return stablehlo.deserialize_portable_artifact(context(), data)
    except (ir.MLIRError, ValueError):
        return ir.Module.parse(data, context=context())


def _parse_error(error: Exception, name: str) -> ShardingError:
    diagnostics = getattr(error, "error_diagnostics", None) or []
    if not diagnostics:
        return ShardingError(f"not valid MLIR: {error}", location=name)
    first = diagnostics[0]
    where = str(first.location).removeprefix('loc("').removesuffix(")").replace('"', "")
    where = name + where.removeprefix("-") if where.startswith("-") else f"{name} ({where})"
    notes = "; ".join(note.message for d in diagnostics for note in d.notes)
    more = "; ".join(d.message for d in diagnostics[1:3])
    return ShardingError(
        f"not valid MLIR: {first.message}",
        location=where,
        cause="; ".join(part for part in (more, notes) if part),
        remedy="correct the module; the position is where the parser stopped",
    )


def _check_nesting(data: bytes, name: str) -> None:
    """Refuse text whose brackets nest deeper than MLIR's recursive parser can follow.

    Brackets alone are kept and matching pairs struck out, once a level: all of it at the speed of C.
    """
    brackets = _without_quoted(data).replace(b"->", b"").translate(None, _NOT_BRACKETS)
    for _ in range(_MAX_NESTING):
        shorter = brackets.replace(b"()", b"").replace(b"[]", b"").replace(b"{}", b"").replace(b"<>", b"")
        if len(shorter) == len(brackets):
            break
        brackets = shorter
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket in b"([{<" else -1
        if depth > _MAX_NESTING:
            raise ShardingError(
                f"regions or brackets are nested more than {_MAX_NESTING} deep",
                location=f"{name}:{_deep_line(data)}",
                cause="MLIR's parser is recursive and would exhaust the stack",
                remedy="flatten the nested regions",
            )


def _without_quoted(data: bytes) -> bytes:
    """Text without its strings and comments."""
    if b"\\" in data or b"//" in data:
        return _QUOTED.sub(b"", data)
    return b"".join(data.split(b'"')[::2])  # five times as fast, where a quote can only begin or end a string


def _deep_line(data: bytes) -> int:
    """The line on which the nesting first exceeds what we accept."""
    depth = 0
    text = _QUOTED.sub(lambda match: b"\n" * match.group().count(b"\n"), data).replace(b"->", b"")
    for number, line in enumerate(text.split(b"\n"), 1):
        for bracket in line.translate(None, _NOT_BRACKETS):
            depth += 1 if bracket in b"([{<" else -1
            if depth > _MAX_NESTING:
                return number
    return 1


def module_text(module: ir.Module, locations: bool = False) -> str:
    """A module as text, with source locations where asked for."""
    return str(module.operation.get_asm(enable_debug_info=locations))
