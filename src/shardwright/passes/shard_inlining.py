"""What `-inline` does with calls of functions that hold ops of the `shard` dialect: MLIR's pass leaves those here.

All ops of the dialect may be inlined. A function of one block that does not call itself takes the place of its calls;
one that is private and called by nothing more goes.

Source: MLIR's pass `-inline`, and the inliner interface of its `shard` dialect.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.passes.call_graph import callee_of, calls_in
from shardwright.passes.edits import replace_by, terminator_of
from shardwright.passes.entry import named_symbols
from shardwright.passes.module_ops import functions, symbol_of
from shardwright.passes.shard_canonical import canonicalize_shard_ops
from shardwright.passes.shard_dialect import shard_ops

__all__ = ["inline_shard_ops"]


def inline_shard_ops(module: ir.Module) -> bool:
    """Inline calls of functions that call none such themselves; whether there were any."""
    held = {symbol_of(one): one for one in functions(module) if _is_inlined(one)}
    ready = {
        name: one for name, one in held.items() if not any(callee_of(call) in held for call in calls_in(one))
    }  # of those that call one another in a circle none ever is
    calls = [call for one in functions(module) for call in calls_in(one) if callee_of(call) in ready]
    names = [callee_of(call) for call in calls]
    for call in calls:
        _inline(module, call, ready[callee_of(call)])
    called = named_symbols(module)
    for name in dict.fromkeys(names):
        if name not in called and _is_private(ready[name]):
            erase(ready[name])
    while calls and canonicalize_shard_ops(module):
        pass
    return bool(calls)


def _is_inlined(function: Any) -> bool:
    return len(function.regions[0].blocks) == 1 and any(shard_ops(function))


def _is_private(function: Any) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return visibility is not None and ir.StringAttr(visibility).value == "private"


def _inline(module: ir.Module, call: Any, function: Any) -> None:
    """Put a copy of a function's ops in place of a call."""
    copy = function.clone(ip=ir.InsertionPoint(module.body)).operation
    (block,) = copy.regions[0].blocks
    for argument, value in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(value)
    end = terminator_of(block)
    for op in [view.operation for view in block.operations]:
        if op != end:
            op.move_before(call)
    results = list(end.operands)
    erase(end)
    replace_by(call, results)
    erase(copy)
