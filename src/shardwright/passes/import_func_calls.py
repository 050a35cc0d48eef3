"""`sdy-import-func-calls`: every call of a function becomes an `sdy.named_computation` that holds the function's body.

The computation has the in-shardings of the function's arguments and the out-shardings of the call. Functions that had
calls go, unless something else than a call names them; calls of functions that are only declared stay.
"""

from __future__ import annotations

import re
from typing import Any

from shardwright.ir.context import context, ir
from shardwright.notation.names import SYMBOL, symbol_name, symbol_text
from shardwright.passes.add_data_flow_edges import add_edges
from shardwright.passes.call_graph import CallGraph, Symbols, callee_of, original_name
from shardwright.passes.edits import end_with, replace_by
from shardwright.passes.module_ops import ARGUMENTS, error_at, operations
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value
from shardwright.passes.registry import Option, Options, register
from shardwright.passes.warnings import warn
from shardwright.propagation.working import NAMED

__all__ = ["import_func_calls"]

_OF_CALLS = frozenset({"callee", "no_inline", "arg_attrs", "res_attrs", SHARDING})
_REFERRING = frozenset({"stablehlo.composite", "stablehlo.custom_call"})
_MOST_OPS = 5_000_000
_CLONED = "function @{} has multiple call ops, we need to clone the function body for each call"

_EDGES = Option(
    "add-data-flow-edges-on-named-computations", True, "Whether to add the data-flow edges of named computations."
)


@register("sdy-import-func-calls", "Creates an `sdy.named_computation` for every `func.call`.", options=(_EDGES,))
def import_func_calls(module: ir.Module, options: Options) -> None:
    """Put the bodies of functions in the place of their calls.

    Raises:
        ShardingError: a recursive function, or bodies that become too many ops in all.
    """
    _CallImporter(module).run()
    if options[_EDGES.name]:
        shardings = Shardings(module)
        for op in operations(module, inner_first=True):
            if op.name == NAMED:
                add_edges(op, shardings)


class _CallImporter:
    def __init__(self, module: ir.Module) -> None:
        self.graph = CallGraph(module)
        self.graph.check_finite()
        _check_size(self.graph)
        self.symbols = Symbols(module)
        self.shardings = Shardings(module)
        self.named_elsewhere = _named_elsewhere(module)
        self.bodies: dict[str, Any] = {}  # function → the first computation that holds its body

    def run(self) -> None:
        for call in self.graph.calls_callees_first():
            function = self.graph.functions.get(callee_of(call))
            if function is not None:
                self._import(call, callee_of(call), function)
        for name in self.bodies:
            if name not in self.named_elsewhere:
                self.symbols.erase(name)

    def _import(self, call: Any, name: str, function: Any) -> None:
        attributes = {key: call.attributes[key] for key in call.attributes if key not in _OF_CALLS}
        attributes["name"] = ir.StringAttr.get(original_name(function), context=context())
        incoming = self.shardings.of_all(function, ARGUMENTS)
        if incoming is not None:
            attributes["in_shardings"] = per_value(incoming)
        if SHARDING in call.attributes:
            attributes["out_shardings"] = call.attributes[SHARDING]
        computation = ir.Operation.create(
            NAMED,
            results=[result.type for result in call.results],
            operands=list(call.operands),
            attributes=attributes,
            regions=1,
            loc=call.location,
            ip=ir.InsertionPoint(call),
        )
        if name in self.bodies:
            warn(call, _CLONED.format(name), "calls")
        self._body(name, function).append_to(computation.regions[0])
        self.bodies.setdefault(name, computation)
        replace_by(call, computation.results)

    def _body(self, name: str, function: Any) -> Any:
        """A block that is the function's body: its own for the first call, copies for others."""
        first = self.bodies.get(name)
        if first is not None:
            return _only_block(first.clone(ip=False))
        block = _only_block(function.clone(ip=False) if name in self.named_elsewhere else function)
        end_with(block, "sdy.return")
        return block


def _only_block(op: Any) -> Any:
    blocks = list(op.regions[0].blocks)
    if len(blocks) != 1:
        raise error_at(op, "a function that is called has several blocks", remedy="express control flow in StableHLO")
    return blocks[0]


def _named_elsewhere(module: ir.Module) -> set[str]:
    """The symbols that ops other than calls name."""
    return {
        symbol_name(symbol)
        for op in operations(module)
        if op.name in _REFERRING
        for key in op.attributes
        if key in ("decomposition", "called_computations")
        for symbol in re.findall(SYMBOL, str(op.attributes[key]))
    }


def _check_size(graph: CallGraph) -> None:
    """Refuse a module that importing its calls would blow up: calls that branch at every level double it each time."""
    sizes: dict[str, int] = {}
    for function in graph.callees_first():
        name = str(function.attributes["sym_name"].value)
        size = len(operations(function)) + sum(sizes.get(callee_of(call), 0) for call in graph.calls[name])
        sizes[name] = size
        if size > _MOST_OPS:
            raise error_at(
                function,
                f"function {symbol_text(name)} has {size} ops with those of all that it calls",
                cause=f"every call would become a copy of the function's body; {_MOST_OPS} ops are the limit",
                remedy="express repeated calls as a loop",
            )
