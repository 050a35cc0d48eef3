"""Modules in the form of the mesh RFC ↔ the same modules in the sdy dialect, both in place.

    from shardwright.notation.rfc.dialect import RFC
    from shardwright.notation.forms.texts import to_custom, to_generic

    module = load_module(to_generic(text, [RFC], name), name)
    import_module(module, name)      # … and `export_module(module)`, then `to_custom(str(module), [RFC])`

Source: the mesh RFC on LLVM's forum, its slides "Sharding Framework Design for Device Mesh", and the tests of ByteIR.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, mhlo, passmanager
from shardwright.ir.locations import read_location
from shardwright.notation.forms.bytecode import verify_bytecode
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.notation import ModuleNotation, mentions
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.exporter import export_shardings
from shardwright.notation.rfc.importer import import_shardings, is_per_device
from shardwright.notation.rfc.mesh import line_of
from shardwright.notation.rfc.options import OPTION, apply_options
from shardwright.notation.rfc.reading import ModuleReading, ops_of
from shardwright.notation.rfc.writing import Writing

__all__ = ["OPTION", "apply_options", "export_module", "import_module", "looks_like"]

_MARKS = (
    re.compile(r"mesh\.(?<!\wmesh\.)(?:cluster|annotate|sub_cluster|local_split|idx|size)\b(?!\s*=)"),
    re.compile(r"mesh_cluster(?<!\wmesh_cluster)\s*="),
)
_OWN_OP = re.compile(rb"\0(?:cluster|annotate|sub_cluster|local_split)\0")
_ENCODED = re.compile(r'tensor<(?<!\wtensor<)[^<>"]*,\s*#mesh\.shard<')


def looks_like(text: str | bytes) -> bool:
    """Whether a module is in the form of the RFC: it has clusters, annotations or distributed tensors.

    Upstream's older dialect is called `mesh` as well, and shares names of collectives; it has none of these. Bytecode,
    which has names without their dialect, is known by the attribute of its functions and by the ops of its own.
    """
    if isinstance(text, bytes):
        return b"mesh_cluster" in text or (b"mesh\0" in text and _OWN_OP.search(text) is not None)
    return any(mentions(mark, text) for mark in _MARKS) or ("#mesh.shard<" in text and mentions(_ENCODED, text))


def import_module(module: Any, name: str = "-", content: str | bytes = b"") -> None:
    """Rewrite a module of the RFC, in generic form, to the sdy dialect; mhlo becomes stablehlo.

    A program for one device (`mesh.idx`, `mesh.size`, collectives on standard tensors) has no shardings and keeps its
    cluster. Options of ops stay as `shardwright.option` and are applied where nothing else is said. `name` is the file;
    `content`, the text that was parsed, tells what need not be looked for.

    Raises:
        ShardingError: what the RFC forbids, two annotations of one value that differ, or what one program on one set of
            devices cannot hold; with op and line.
    """
    with context(), ir.Location.unknown():
        reading = ModuleReading(module, name, _may_hold(content, "#mesh"))
        per_device = is_per_device(reading)
        import_shardings(reading, per_device)
        options = any(function.options for function in reading.functions)
        del reading  # its handles do not outlive a pass
        if _may_hold(content, "mhlo."):
            _legalize(module, name, "mhlo.", "hlo-legalize-to-stablehlo")
        if options and not per_device:
            apply_options(module, name)


def export_module(module: Any, name: str = "-", *, mhlo: bool = False) -> None:
    """Rewrite a module of the sdy dialect to the RFC, in generic form; with `mhlo`, its stablehlo to mhlo as well.

    A module with sdy collectives gets distributed tensors, any other `mesh.annotate`.

    Raises:
        ShardingError: what the RFC cannot say (parts of axes, priorities, dimensions of which only some are open,
            reductions other than sums, device orders, manual computations, groups, barriers); with op and line.
    """
    with context(), ir.Location.unknown():
        if mhlo:
            _legalize(module, name, "stablehlo.", "stablehlo-legalize-to-hlo")
        export_shardings(Writing(module, name))


def _may_hold(content: str | bytes, word: str) -> bool:
    return not isinstance(content, str) or word in content


@lru_cache(maxsize=1)
def _passes() -> None:
    mhlo.register_mhlo_passes()


def _legalize(module: Any, name: str, prefix: str, pipeline: str) -> None:
    """Run a pass that turns all ops called `prefix…` into others, if there are any."""
    ops = [(op_name, op) for op_name, op in ops_of(module.operation) if op_name.startswith(prefix)]
    nameless = next((op for op_name, op in ops if op_name == prefix), None)
    if nameless is not None:  # MLIR parses it, and its pass ends the process
        where = line_of(nameless, name)
        raise ShardingError(f"the op {prefix!r} has no name", op=prefix, location=where, remedy="give its name")
    if not ops:
        return
    del ops
    _passes()
    manager = passmanager.PassManager.parse(f"builtin.module({pipeline})")
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        raise _not_legal(error, name) from None


def _not_legal(error: Any, name: str) -> ShardingError:
    first = error.error_diagnostics[0]
    place = read_location(str(first.location))
    op = re.search(r"'((?:mhlo|stablehlo)\.\w+)'", first.message)
    return ShardingError(
        f"there is no counterpart of {op.group(1) if op else 'an op'}",
        op=op.group(1) if op else "",
        location=f"{name if place.file in ('', '-') else place.file}:{place.line}",
        cause=first.message.partition(":")[0],
        remedy="write it with ops that mhlo and stablehlo both have",
    )


def _read(module: ir.Module, name: str, content: str | bytes) -> None:
    if isinstance(content, bytes):  # a text was held against the forms when it was spelt generically
        verify_bytecode(module, [RFC], name)
    import_module(module, name, content)


NOTATION = ModuleNotation(
    "rfc",
    "the mesh RFC on LLVM's forum: clusters, annotations, distributed tensors",
    looks_like,
    lambda text, name: to_generic(text, [RFC], name),
    _read,
    export_module,
    partial(to_custom, dialects=[RFC]),
    has_manual=False,
)
