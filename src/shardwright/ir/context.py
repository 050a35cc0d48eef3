"""The one door to jaxlib's MLIR bindings.

Every private jaxlib module that the compiler needs is imported here and nowhere else. The names used are the same in
jaxlib 0.10, 0.11 and 0.12; what one of them lacks is asked for here (`reduction_kinds`, `is_registered`).
"""

from __future__ import annotations

import io
from functools import lru_cache

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _mosaic_gpu_ext
from jaxlib.mlir.dialects import builtin, chlo, func, mhlo, sdy, stablehlo  # noqa: F401 (else imported when first read)

from shardwright.errors import ShardingError
from shardwright.ir.bytecode import check_bytecode
from shardwright.ir.escapes import without_bytes
from shardwright.ir.nesting import DEEPEST_REGIONS, refuse_deep, too_deep
from shardwright.ir.splats import refuse_splats

__all__ = [
    "as_text",
    "check_text",
    "context",
    "ir",
    "is_registered",
    "load_module",
    "mhlo",
    "module_bytecode",
    "module_text",
    "parse_attribute",
    "parse_bytecode",
    "parse_type",
    "passmanager",
    "reduction_kinds",
    "stablehlo",
    "valid_text",
]

_BYTECODE = b"ML\xefR"
_UNITS = {bytes: "byte", str: "character"}


@lru_cache(maxsize=1)
def context() -> ir.Context:
    """The MLIR context of this process, with every dialect jaxlib has. Types and attributes live as long as it."""
    ctx = ir.Context()
    ctx.enable_multithreading(False)  # a copy of the process (see `trial`) would wait for threads that it does not have
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


@lru_cache(maxsize=4096)
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
    """Text as a string, without a byte order mark; MLIR bytecode and portable artifacts, no text, as they are.

    Raises:
        ShardingError: what is neither.
    """
    if isinstance(source, bytes) and source.startswith(_BYTECODE):
        return source
    try:
        text = source.decode() if isinstance(source, bytes) else source
        text.encode()  # a string may hold what no file can
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise _no_text(f"{_UNITS[type(source)]} {error.start} is not UTF-8 text", name) from None
    if "\0" in text:
        raise _no_text(f"character {text.index(chr(0))} is NUL, which no text has", name)
    return text.removeprefix("\ufeff")


def _no_text(cause: str, name: str) -> ShardingError:
    return ShardingError(
        "the file is neither MLIR text nor MLIR bytecode",
        location=name,
        cause=cause,
        remedy="give StableHLO text, MLIR bytecode or a StableHLO portable artifact; "
        "what jax.export serialized goes to sw.from_jax, and what `shardwright export` wrote to sw.load_exported",
    )


def load_module(source: str | bytes, name: str = "-") -> ir.Module:
    """Parse MLIR text, MLIR bytecode or a StableHLO portable artifact.

    Raises:
        ShardingError: with the parser's message and the position in `name`, or for what the parser would not survive.
    """
    content = as_text(source, name)
    try:
        if isinstance(content, bytes):
            check_bytecode(content, name)
            return parse_bytecode(content, name)
        depth = check_text(content, name)
        module = ir.Module.parse(content, context=context())
    except (ir.MLIRError, ValueError, MemoryError) as error:
        raise _parse_error(error, name) from None
    if depth > DEEPEST_REGIONS:
        _check_regions(module, name)
    return module


def check_text(text: str, name: str = "-") -> int:
    """Refuse text that MLIR's parser or verifier would not survive, or would not come back from.

    Returns:
        How deep its brackets go, at most.

    Raises:
        ShardingError: the first such thing, at its line in `name`.
    """
    depth = refuse_deep(text, name)
    refuse_splats(text, name)
    readable = without_bytes(text, name)
    if readable is not None:
        try:
            ir.Module.parse(readable, context=context())
        except ir.MLIRError as error:
            raise _parse_error(error, name) from None
    return depth


def _check_regions(module: ir.Module, name: str) -> None:
    """Refuse a module with more regions within one another than what walks it is made for."""
    level = [module.operation]
    for _ in range(DEEPEST_REGIONS + 2):  # the module's own, and that of a function
        if not level:
            return
        held = [view.operation for op in level for region in op.regions for block in region for view in block]
        level = [op for op in held if len(op.regions)]
    if level:
        where = _position(level[0].location, name)
        raise too_deep(level[0].name, "regions", DEEPEST_REGIONS, where)


def parse_bytecode(data: bytes, name: str = "-") -> ir.Module:
    """Parse bytecode or a portable artifact in this process, whatever comes of it.

    Raises:
        ShardingError: regions too deep.
        ir.MLIRError: what MLIR refuses.
    """
    try:
        module = stablehlo.deserialize_portable_artifact(context(), data)
    except (ir.MLIRError, ValueError):
        module = ir.Module.parse(data, context=context())
    _check_regions(module, name)
    return module


def _position(location: ir.Location, name: str) -> str:
    where = str(location).removeprefix('loc("').removesuffix(")").replace('"', "")
    return name + where.removeprefix("-") if where.startswith("-") else f"{name} ({where})"


def _parse_error(error: Exception, name: str) -> ShardingError:
    diagnostics = getattr(error, "error_diagnostics", None) or []
    if not diagnostics:
        return ShardingError(f"not valid MLIR: {error}", location=name)
    first = diagnostics[0]
    where = _position(first.location, name)
    notes = "; ".join(note.message for d in diagnostics for note in d.notes)
    more = "; ".join(d.message for d in diagnostics[1:3])
    return ShardingError(
        f"not valid MLIR: {first.message}",
        location=where,
        cause="; ".join(part for part in (more, notes) if part),
        remedy="correct the module; the position is where the parser stopped",
    )


_GENERIC = '"builtin.module"('
"""How the generic form of a module begins."""


def module_text(module: ir.Module, locations: bool = False) -> str:
    """A module as text, with source locations where asked for."""
    return str(module.operation.get_asm(enable_debug_info=locations))


def valid_text(module: ir.Module, name: str = "-", locations: bool = False) -> str:
    """The same of a module that was changed, of which diagnostics say `name`.

    Raises:
        ShardingError: what MLIR's verifier refuses, which could not be read again; at its place.
    """
    text = module_text(module, locations)
    if not text.startswith(_GENERIC) and f"\n{_GENERIC}" not in text:  # so MLIR prints what is not valid
        return text
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        first = error.error_diagnostics[0]
        raise ShardingError(
            "the module cannot be written so",
            location=_position(first.location, name),
            cause=first.message[:1000],
            remedy="change the op that this names, or its types",
        ) from None
    return text


def module_bytecode(module: ir.Module) -> bytes:
    """A module as bytecode, locations and blobs included."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
