"""Per-device modules as calls inside of what JAX traces: a door to JAX's lowering, as `runtime.xla` is one to XLA.

JAX has no public word for a module of StableHLO that is called on shards: `jax.export` writes its own modules only. So
there is a primitive, whose lowering puts the functions of the module beside those of the caller.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from shardwright.runtime.spelled import spell_groups

__all__ = ["local_call"]

_CHANNEL = re.compile(r"(channel_handle<handle = )(\d+)")
_CALLBACK = re.compile(r"(custom_call @xla_ffi_\w*python\w*_callback\([^\n]*mhlo\.backend_config = \{index = )(\d+)")
_CHANNELS = 1 << 20
"""How far the channels of one call are from those of the next: collectives on one channel would wait for each other."""

_calls = itertools.count(1)
_local = Primitive("shardwright_local")
_local.multiple_results = True


@dataclass(frozen=True, eq=False)
class _Module:
    """A module, compared by identity, and what it gives."""

    text: str
    results: tuple[ShapedArray, ...]
    callbacks: tuple[Any, ...]


def local_call(
    text: str, results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]], callbacks: Sequence[Any] = ()
) -> Callable[..., list[Any]]:
    """A function of the shards of one device, to be traced where all axes of the mesh are manual.

    Arguments:
        text: A per-device module, its entry called `main`. Its partitions are the devices in the order of the mesh.
        results: Shape and element type of each result.
        callbacks: The Python functions that it calls, by the numbers that it has for them.
    """
    module = _Module(text, tuple(ShapedArray(shape, dtype) for shape, dtype in results), tuple(callbacks))
    return lambda *shards: _local.bind(*shards, module=module)


@_local.def_abstract_eval  # type: ignore[untyped-decorator]
def _results_of(*shards: ShapedArray, module: _Module) -> list[ShapedArray]:
    return list(module.results)


def _lower(ctx: Any, *shards: Any, module: _Module) -> Any:
    """Take the functions of the module over into the caller's, under names of their own, and call its main."""
    call = next(_calls)
    into = ctx.module_context
    text = _CHANNEL.sub(lambda match: f"{match[1]}{int(match[2]) + call * _CHANNELS}", module.text)
    first = len(into.host_callbacks)
    for callback in module.callbacks:
        into.add_host_callback(callback)
    text = _CALLBACK.sub(lambda match: f"{match[1]}{first + int(match[2])}", text)
    with into.module.context:
        read = ir.Module.parse(text)
        spell_groups(read)
    functions = [op for op in read.body.operations if op.operation.name == "func.func"]
    for op in functions:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        new = f"shardwright_{call}_{name}"
        ir.SymbolTable.replace_all_symbol_uses(name, new, read.operation)
        ir.SymbolTable.set_symbol_name(op.operation, new)
    results: Any = None
    for op in functions:
        _make_private(op.operation)
        if ir.StringAttr(op.attributes["sym_name"]).value == f"shardwright_{call}_main":
            results = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results
        into.module.body.append(op)
        into.symbol_table.insert(op)
    return func.CallOp(results, ir.FlatSymbolRefAttr.get(f"shardwright_{call}_main"), shards).results


def _make_private(function: ir.Operation) -> None:
    """What is said of arguments and results of an entry means nothing in a function that is called."""
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for rows in ("arg_attrs", "res_attrs"):
        if rows in function.attributes:
            del function.attributes[rows]


mlir.register_lowering(_local, _lower)
