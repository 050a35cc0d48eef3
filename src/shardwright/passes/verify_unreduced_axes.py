"""Partial sums do not get lost: an axis along which an operand awaits reduction is reduced by sdy, or passed on.

An op may add axes: a dot whose contracting dimension is split leaves its result unreduced. What a function, a loop or
a branch returns, and what a call is given and gives back, must agree exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwright.axes import Axes
from shardwright.ir.context import ir
from shardwright.passes.call_graph import Symbols
from shardwright.passes.module_ops import ARGUMENTS, RESULTS, error_at, functions, operations
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

_INVALID = "' without a blessed operation (e.g., sdy.reshard). This is an invalid transition from unreduced to reduced."
_REMEDY = "reduce the axis by an sdy.reshard or sdy.all_reduce before the op, or keep it unreduced in the result"
_JUMPS = ("cf.",)
_RETURNS = frozenset({"func.return", "stablehlo.return", "scf.yield"})
_RETURNED_TO = frozenset({"stablehlo.while", "stablehlo.case", "stablehlo.if", "scf.if", "scf.for"})


@register("sdy-verify-unreduced-axes", "Verifies the consistency of unreduced axis usage.", on="func.func")
def verify_unreduced_axes(module: ir.Module, options: Options) -> None:
    """Check every op of every function.

    Raises:
        ShardingError: at the first op that drops an unreduced axis.
    """
    verifier = _Verifier(module)
    for function in functions(module):
        for op in operations(function, inner_first=True)[:-1]:
            verifier.check(op, function)


class _Verifier:
    def __init__(self, module: ir.Module) -> None:
        self.shardings = Shardings(module)
        self.symbols = Symbols(module)

    def check(self, op: Any, function: Any) -> None:
        name = op.name
        if name.startswith("sdy.") or name.startswith(_JUMPS):
            return
        if name == "func.call":
            self._check_call(op)
        elif name in _RETURNS:
            self._check_return(op, function)
        else:
            self._check_op(op)

    def _check_op(self, op: Any) -> None:
        kept = self._of_values(op.results)
        for axis in self._of_values(op.operands):
            if axis not in kept:
                raise _error(op, f"dropped unreduced axis '{axis.name}{_INVALID}")

    def _check_return(self, op: Any, function: Any) -> None:
        parent = op.parent.operation
        if parent == function:
            received = [axis for sharding in self.shardings.of_rows(function, RESULTS) for axis in _axes(sharding)]
        elif parent.name in _RETURNED_TO and not _is_condition(op, parent):
            received = self._of_values(parent.results)
        else:
            return
        _check_equal(op, self._of_values(op.operands), received, _INVALID)

    def _check_call(self, op: Any) -> None:
        callee = self.symbols.called(op)
        taken = self.shardings.of_rows(callee, ARGUMENTS)
        for index, (value, sharding) in enumerate(zip(op.operands, taken, strict=False)):
            _check_equal(op, _axes(self.shardings.of(value)), _axes(sharding), f"' at call argument {index}.")
        returned = self.shardings.of_rows(callee, RESULTS)
        for index, (sharding, value) in enumerate(zip(returned, op.results, strict=False)):
            _check_equal(op, _axes(sharding), _axes(self.shardings.of(value)), f"' at call result {index}.")

    def _of_values(self, values: Any) -> list[Any]:
        return [axis for value in values for axis in _axes(self.shardings.of(value))]


def _axes(sharding: TensorSharding | None) -> Axes:
    return sharding.partial_axes if sharding is not None else ()


def _is_condition(op: Any, parent: Any) -> bool:
    """Whether a loop ends by what is returned, rather than carries it on."""
    return bool(parent.name == "stablehlo.while" and op.block == parent.regions[0].blocks[0])


def _check_equal(op: Any, first: Sequence[Any], second: Sequence[Any], suffix: str) -> None:
    if tuple(first) != tuple(second):
        names = {axis.name for axis in first if axis not in second} | {a.name for a in second if a not in first}
        raise _error(op, f"has unreduced axes mismatch for '{', '.join(sorted(names))}{suffix}")


def _error(op: Any, what: str) -> Exception:
    return error_at(op, f"'{op.name}' op {what}", remedy=_REMEDY)
