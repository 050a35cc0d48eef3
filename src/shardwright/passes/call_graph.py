"""Who calls whom: functions in the order of their calls, names for new ones, and copies with all that they call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.notation.names import symbol_text
from shardwright.passes.module_ops import error_at, functions, operations, symbol_of

__all__ = [
    "ORIGINAL_NAME",
    "CallGraph",
    "FunctionCopier",
    "Symbols",
    "callee_of",
    "calls_in",
    "original_name",
    "retarget",
]

ORIGINAL_NAME = "sdy.original_func_name"
"""On a copy of a function: the name of what it was copied from."""

_MOST_COPIES = 100_000
_DEEPEST = 300


def original_name(function: Any) -> str:
    """The name of the function that `function` was copied from, or its own."""
    attribute = function.attributes.get(ORIGINAL_NAME)
    return symbol_of(function) if attribute is None else str(ir.StringAttr(attribute).value)


def calls_in(root: Any) -> list[Any]:
    """The calls within an op, in program order."""
    return [op for op in operations(root) if op.name == "func.call"]


def callee_of(call: Any) -> str:
    """The name of the function that a call names."""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


class Symbols:
    """The symbols of a module; a new one whose name is taken gets a number."""

    def __init__(self, module: ir.Module) -> None:
        """Read the names there are."""
        self._body = module.body
        self.ops = {symbol_of(op): op for op in _symbol_ops(module)}
        self._number = 0

    def unused(self, name: str) -> str:
        """`name`, or `name_0`, `name_1`, … if it is taken; one count serves all names, as in MLIR."""
        if name not in self.ops:
            return name
        while (numbered := f"{name}_{self._number}") in self.ops:
            self._number += 1
        self._number += 1
        return numbered

    def add(self, op: Any) -> str:
        """Take up an op, at the end of the module unless it stands in it, under a name of its own; that name."""
        name = self.unused(symbol_of(op))
        op.attributes["sym_name"] = ir.StringAttr.get(name, op.context)
        if not op.attached or op.parent is None:
            self._body.append(op)
        self.ops[name] = op
        return name

    def called(self, call: Any) -> Any:
        """The function that a call names.

        Raises:
            ShardingError: there is none.
        """
        name = callee_of(call)
        if name not in self.ops:
            raise error_at(
                call, f"there is no function {symbol_text(name)}", remedy="define or declare it in this module"
            )
        return self.ops[name]

    def forget(self, name: str) -> Any:
        """Give a name free; the op that had it."""
        return self.ops.pop(name)

    def erase(self, name: str) -> None:
        """Take an op that nobody refers to out of the module."""
        erase(self.ops.pop(name))


def _symbol_ops(module: ir.Module) -> Iterator[Any]:
    for view in module.body.operations:
        op = view.operation
        if "sym_name" in op.attributes and isinstance(op.attributes["sym_name"], ir.StringAttr):  # VHLO has its own
            yield op


class CallGraph:
    """The functions of a module that have a body, and their calls."""

    def __init__(self, module: ir.Module) -> None:
        """Read the calls of every function."""
        self.calls: dict[str, list[Any]] = {}
        self.functions: dict[str, Any] = {}
        for function in functions(module):
            if _has_body(function):
                name = symbol_of(function)
                self.functions[name] = function
                self.calls[name] = calls_in(function)

    def callees_first(self) -> list[Any]:
        """The functions, each after those that it calls, in the order of the calls.

        Of functions that call each other in a ring, the one that stands first in the module comes last.
        """
        return [self.functions[name] for name in self._names_callees_first()]

    def calls_callees_first(self) -> list[Any]:
        """All calls, those in functions that are called before those in the functions that call them."""
        return [call for name in self._names_callees_first() for call in self.calls[name]]

    def check_finite(self) -> None:
        """Refuse calls that cannot all have a copy of what they call.

        Raises:
            ShardingError: at a call of a function that calls itself, directly or not, or that lies too deep.
        """
        depths: dict[str, int] = {}
        for name in self._names_callees_first():
            deepest = 0
            for call in self.calls[name]:
                callee = callee_of(call)
                if callee in self.functions and callee not in depths:
                    raise error_at(
                        call,
                        f"function {symbol_text(callee)} is recursive",
                        cause="every call is to have a copy of the function's body, which has no end here",
                        remedy="express the recursion as stablehlo.while",
                    )
                deepest = max(deepest, depths.get(callee, 0) + 1)
                if deepest > _DEEPEST:
                    raise error_at(call, f"calls are nested more than {_DEEPEST} deep", remedy="inline some of them")
            depths[name] = deepest

    def _names_callees_first(self) -> list[str]:
        order: list[str] = []
        seen: set[str] = set()
        for root in self.functions:
            if root in seen:
                continue
            seen.add(root)
            stack = [(root, self._callees(root))]
            while stack:
                name, rest = stack[-1]
                callee = next((callee for callee in rest if callee not in seen), None)
                if callee is None:
                    order.append(name)
                    stack.pop()
                else:
                    seen.add(callee)
                    stack.append((callee, self._callees(callee)))
        return order

    def _callees(self, name: str) -> Iterator[str]:
        return (callee for call in self.calls[name] if (callee := callee_of(call)) in self.functions)


class FunctionCopier:
    """Copies functions, each with copies of all that it calls."""

    def __init__(self, symbols: Symbols) -> None:
        """Copies are taken up by `symbols`."""
        self.symbols = symbols
        self._count = 0

    def copy(self, function: Any) -> str:
        """Copy a function that is not recursive; the name of the copy, which stands at the end of the module.

        Raises:
            ShardingError: the copies become too many: a call graph that branches at every level doubles them each time.
        """
        self._count += 1
        if self._count > _MOST_COPIES:
            raise error_at(
                function,
                f"the calls of this module need more than {_MOST_COPIES} copies of functions",
                cause="every call has a copy of the function's body, and the copies have copies of all that they call",
                remedy="call fewer functions from functions that are called often",
            )
        copied = function.clone()
        for call in calls_in(copied):
            retarget(call, self.copy(self.symbols.called(call)))
        if ORIGINAL_NAME not in copied.attributes:
            copied.attributes[ORIGINAL_NAME] = function.attributes["sym_name"]
        return self.symbols.add(copied)


def retarget(call: Any, name: str) -> None:
    """Make a call one of the function called `name`."""
    call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name, call.context)


def _has_body(function: Any) -> bool:
    return len(function.regions[0].blocks) > 0
