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
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from shardwright.errors import ShardingError
from shardwright.runtime.for_partitioner import write_for_partitioner
from shardwright.runtime.python_calls import NO_CALLS, PythonCalls

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
    callbacks: PythonCalls


def local_call(
    text: str, results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]], callbacks: PythonCalls = NO_CALLS
) -> Callable[..., list[Any]]:
    """A function of the shards of one device, to be traced where all axes of the mesh are manual.

    Arguments:
        text: A per-device module, its entry called `main` or public. Its partitions are the devices in the order of the
            mesh.
        results: Shape and element type of each result.
        callbacks: The Python functions that it calls.
    """
    module = _Module(text, tuple(ShapedArray(shape, dtype) for shape, dtype in results), callbacks)
    return lambda *shards: _local.bind(*shards, module=module)


@_local.def_effectful_abstract_eval  # type: ignore[untyped-decorator]
def _results_of(*shards: ShapedArray, module: _Module) -> tuple[list[ShapedArray], set[Any]]:
    return list(module.results), module.callbacks.effects


def _refuse(what: str, transform: str) -> Callable[..., Any]:
    """What stands in place of a rule that there is none for: programs have others around, where JAX can have these."""

    def rule(*_: Any, **__: Any) -> Any:
        raise ShardingError(
            f"the program cannot be {what} here",
            cause="it calls Python with effects, or came from text or a file: JAX has the one program, no other of it",
            remedy=f"shard what is to run: sw.jit({transform}(f), mesh, …)",
        )

    return rule


def _lower(ctx: Any, *shards: Any, module: _Module) -> Any:
    """Take the functions of the module over into the caller's, under names of their own, and call its main."""
    call = next(_calls)
    into = ctx.module_context
    text = _CHANNEL.sub(lambda match: f"{match[1]}{int(match[2]) + call * _CHANNELS}", module.text)
    first = len(into.host_callbacks)
    for callback in module.callbacks.functions:
        into.add_host_callback(callback)
    text = _CALLBACK.sub(lambda match: f"{match[1]}{first + int(match[2])}", text)
    with into.module.context:
        read = ir.Module.parse(text)
        write_for_partitioner(read, into.platforms)
    functions = [op for op in read.body.operations if op.operation.name == "func.func"]
    main = _entry(functions)  # before they are named anew
    for op in functions:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        new = f"shardwright_{call}_{name}"
        ir.SymbolTable.replace_all_symbol_uses(name, new, read.operation)
        ir.SymbolTable.set_symbol_name(op.operation, new)
    for op in functions:
        _make_private(op.operation)
        into.module.body.append(op)
        into.symbol_table.insert(op)
    return _called(ctx, main, shards, module.callbacks.order)


def _entry(functions: Sequence[Any]) -> Any:
    """The function that is called `main`, or is the one that is public."""
    named = [op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main"]
    private = ir.StringAttr.get("private")
    public = [
        op for op in functions if "sym_visibility" not in op.attributes or op.attributes["sym_visibility"] != private
    ]
    return (named or public)[0]


def _called(ctx: Any, main: Any, shards: Sequence[Any], order: Any) -> Any:
    """The results of a call; one with effects in an `order` takes JAX's token for it, and gives it back."""
    operands = list(shards)
    if order is not None:
        _take_token(main)
        operands.append(ctx.tokens_in.get(order))
    symbol = ir.FlatSymbolRefAttr.get(ir.StringAttr(main.attributes["sym_name"]).value)
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    results = list(func.CallOp(types, symbol, operands).results)
    if order is not None:
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({order: results.pop()})))
    return results


def _take_token(function: Any) -> None:
    """Have a function take a token in place of those that it makes, and return one that awaits all that it has."""
    block = function.regions[0].blocks[0]
    token_type = ir.Type.parse("!stablehlo.token")
    own = block.add_argument(token_type, ir.Location.unknown())
    tokens, made = [own], []
    for op in block.operations:
        if op.operation.name == "stablehlo.create_token":
            op.operation.results[0].replace_all_uses_with(own)
            made.append(op.operation)
        else:
            tokens += [result for result in op.operation.results if result.type == token_type]
    for operation in made:
        operation.erase()
    last = block.operations[len(block.operations) - 1].operation
    returned = list(last.operands)
    with ir.InsertionPoint(last), ir.Location.unknown():
        awaited = ir.Operation.create("stablehlo.after_all", [token_type], tokens).results[0]
        func.ReturnOp([*returned, awaited])
    last.erase()
    inputs, results = [argument.type for argument in block.arguments], [value.type for value in (*returned, awaited)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


def _make_private(function: ir.Operation) -> None:
    """What is said of arguments and results of an entry means nothing in a function that is called."""
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for rows in ("arg_attrs", "res_attrs"):
        if rows in function.attributes:
            del function.attributes[rows]


mlir.register_lowering(_local, _lower)
ad.primitive_jvps[_local] = _refuse("differentiated", "jax.grad")
batching.primitive_batchers[_local] = _refuse("mapped", "jax.vmap")
