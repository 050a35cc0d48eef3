"""Named computations into functions and calls of them: what import of calls did, undone.

    %1 = sdy.named_computation<"f">(%0) in_shardings=[A] out_shardings=[B] (%a: T) { … sdy.return %b : T }
→   %1 = call @f(%0) {sdy.sharding = [B]}      func.func private @f(%a: T {sdy.sharding = A}) -> T { … return %b : T }

Every one becomes a function of its own at the end of the module; `sdy.original_func_name` on it says its name. Edges of
data flow that it owns are sunk into it first.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir
from shardwright.passes.call_graph import ORIGINAL_NAME, Symbols
from shardwright.passes.edits import end_with, replace_by
from shardwright.passes.module_ops import ARGUMENTS, operations, set_rows
from shardwright.passes.module_shardings import SHARDING, Shardings, single
from shardwright.passes.registry import Options, register
from shardwright.passes.sink_data_flow_edges import remove_edges_of, say_what_edges_say
from shardwright.propagation.working import NAMED

_OWN = frozenset({"name", "in_shardings", "out_shardings"})


@register("sdy-export-named-computations", "Outlines named computations into functions and calls.")
def export_named_computations(module: ir.Module, options: Options) -> None:
    """Put a call of a new private function in place of every `sdy.named_computation`, inner ones first."""
    symbols, shardings = Symbols(module), Shardings(module)
    for op in [op for op in operations(module, inner_first=True) if op.name == NAMED]:
        say_what_edges_say(op, shardings)
        remove_edges_of(op)
        name = symbols.add(_function(op, shardings))
        call = _call(op, name)
        replace_by(op, call.results)


def _function(op: Any, shardings: Shardings) -> Any:
    """A function with the body of a computation, which is left without one."""
    body = op.regions[0].blocks[0]
    type = ir.FunctionType.get([v.type for v in body.arguments], [v.type for v in op.results], context=context())
    function = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": op.attributes["name"],
            "sym_visibility": ir.StringAttr.get("private", context=context()),
            "function_type": ir.TypeAttr.get(type, context=context()),
            ORIGINAL_NAME: op.attributes["name"],
        },
        regions=1,
        loc=op.location,
    )
    body.append_to(function.regions[0])
    end_with(function.regions[0].blocks[0], "func.return")
    if "in_shardings" in op.attributes:
        of_arguments = shardings.read(op.attributes["in_shardings"])
        set_rows(function, ARGUMENTS, [{SHARDING: single(sharding)} for sharding in of_arguments])
    return function


def _call(op: Any, name: str) -> Any:
    attributes = {key: attribute for key, attribute in op.attributes.items() if key not in _OWN}
    attributes["callee"] = ir.FlatSymbolRefAttr.get(name, context=context())
    if "out_shardings" in op.attributes:
        attributes[SHARDING] = op.attributes["out_shardings"]
    return ir.Operation.create(
        "func.call",
        results=[value.type for value in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
