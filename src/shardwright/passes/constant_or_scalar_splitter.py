"""`sdy-constant-or-scalar-splitter`: a constant expression, or broadcast scalar, of its own for every use.

Frontends share one `zeros` among hundreds of users; propagated as one value it would carry the sharding of one user to
all others. A constant expression is a constant, an iota, or a broadcast, reshape, slice or elementwise op, a call or a
named computation, of constant expressions alone; scalars, which are never split, stay shared. A `stablehlo.constant`
becomes an `sdy.constant`, which no folding merges again. Sharding groups of what is copied are copied with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.ir.handles import renamed
from shardwright.ir.ops import RETURNS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.passes.attached import operations
from shardwright.passes.call_graph import CallGraph, Copier, Symbols, callee_of, original_name, retarget
from shardwright.passes.registry import Options, register
from shardwright.rules.traits import facts_of, is_constant_preserving

__all__ = ["constant_or_scalar_splitter"]

_CALL = "func.call"
_COMPUTATION = "sdy.named_computation"
_GROUP = "sdy.sharding_group"


@register(
    "sdy-constant-or-scalar-splitter",
    "Splits constant and scalar sub-computations so that each has a single use.",
)
def constant_or_scalar_splitter(module: ir.Module, options: Options) -> None:
    """Split the constant expressions and broadcast scalars of every function.

    Raises:
        ShardingError: copies of functions that are called on constants become too many.
    """
    for op in operations(module):
        if op.name == "stablehlo.constant":
            _convert(op)
    splitter = _Splitter(module)
    for function in CallGraph(module).callees_first():
        splitter.split(function)


def _convert(op: Any) -> None:
    new = renamed(op, "sdy.constant")
    op.results[0].replace_all_uses_with(new.results[0])
    erase(op)


class _Splitter:
    """Splits functions, callees first.

    Attributes:
        symbols: The functions by name.
        computations: Named computations, by name, that hold more than constant expressions can.
        functions: The same of functions, by the names that they were copied from.
        known: Whether ops of a name make constant expressions of such.
    """

    def __init__(self, module: ir.Module) -> None:
        self.symbols = Symbols(module)
        self.copier = Copier(self.symbols)
        self.computations: set[str] = set()
        self.functions: set[str] = set()
        self.known: dict[str, bool] = {}

    def split(self, function: Any) -> None:
        """Split the named computations within a function, inner ones first, and then the function itself."""
        for op in operations(function, inner_first=True):
            if op.name == _COMPUTATION:
                _Region(self, function, op).split()
        _Region(self, function, function).split()

    def preserves(self, op: Any) -> bool:
        """Whether an op's results are constant expressions once its operands are."""
        name = op.name
        if name == _CALL:
            function = self.symbols.called(op)
            return len(function.regions[0].blocks) > 0 and original_name(function) not in self.functions
        if name == _COMPUTATION:
            return str(op.attributes["name"].value) not in self.computations
        if name == "stablehlo.bitcast_convert":  # the only one that depends on types
            return is_constant_preserving(Signature(name, (), _types(op.operands), _types(op.results)))
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = is_constant_preserving(Signature(name, (), (), ()))
        return known


def _types(values: Any) -> tuple[TensorType, ...]:
    return tuple([TensorType.parse(str(value.type)) for value in values])


class _Region:
    """What stands in one function or named computation, without the named computations in it."""

    def __init__(self, splitter: _Splitter, function: Any, owner: Any) -> None:
        self.splitter = splitter
        self.function = function
        self.owner = owner
        self.constants: list[Any] = []
        self.expansions: list[Any] = []
        self.own: set[Any] = set()  # their results; ops themselves are no keys, their hash changes with what they say
        self.constant: set[Any] = set()

    def split(self) -> None:
        """Give uses their copies, and take out what has no use left."""
        for op in list(_ops(self.owner)):
            self._visit(op)
        for op in (*self.expansions, *reversed(self.constants)):
            users = [use.owner.operation for result in op.results for use in result.uses]
            if all(user.name == _GROUP for user in users):
                for user in users:
                    erase(user)
                erase(op)

    def _visit(self, op: Any) -> None:
        name = op.name
        if name == _GROUP:
            return
        makes = facts_of(name).constant
        preserves = not makes and self.splitter.preserves(op)
        if makes or (preserves and self.constant.issuperset(op.operands)):
            self.constants.append(op)
            self.constant.update(op.results)
            self.own.update(op.results)
            return
        if not preserves and name not in RETURNS:
            self._note_other()
        if name == "stablehlo.broadcast_in_dim" and _is_scalar(op.operands[0]):
            self.expansions.append(op)
            self.own.update(op.results)
            return
        for index, value in enumerate(op.operands):
            if value in self.own and not _is_scalar(value):
                op.operands[index] = self._copy(value)

    def _note_other(self) -> None:
        """Note that there is an op here that no constant expression has."""
        if self.owner != self.function:
            self.splitter.computations.add(str(self.owner.attributes["name"].value))
        self.splitter.functions.add(original_name(self.function))

    def _copy(self, value: Any) -> Any:
        """Copy the op that makes `value`, behind copies of all that it is made of."""
        copies: dict[Any, Any] = {}
        pending = [value]
        while pending:
            op = pending[-1].owner.operation
            missing = next((made for made in op.operands if not _is_scalar(made) and made not in copies), None)
            if missing is not None:
                pending.append(missing)
                continue
            made = pending.pop()
            if made not in copies:
                self._copy_op(op, made, copies)
        return copies[value]

    def _copy_op(self, op: Any, value: Any, copies: dict[Any, Any]) -> None:
        new = _copied(op, copies, op)
        copies.update(zip(op.results, new.results, strict=True))
        if op.name == _CALL:
            retarget(new, self.splitter.copier.copy(self.splitter.symbols.ops[callee_of(op)]))
        for user in [use.owner.operation for use in value.uses]:
            if user.name == _GROUP:
                _copied(user, copies, op)


def _copied(op: Any, copies: dict[Any, Any], before: Any) -> Any:
    """A copy of `op` that reads copies where there are any, put before another op."""
    new = op.clone(ip=ir.InsertionPoint(before))
    for index, value in enumerate(op.operands):
        if value in copies:
            new.operands[index] = copies[value]
    return new


def _ops(root: Any) -> Iterator[Any]:
    """The ops in the regions of `root`, an op before what its own hold; named computations from outside only."""
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                op = view.operation
                yield op
                if op.name != _COMPUTATION:
                    yield from _ops(op)


def _is_scalar(value: Any) -> bool:
    type = value.type
    return isinstance(type, ir.ShapedType) and type.has_rank and type.rank == 0
