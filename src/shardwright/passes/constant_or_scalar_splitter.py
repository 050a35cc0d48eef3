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
from shardwright.ir.graph import Block, Op
from shardwright.ir.handles import renamed
from shardwright.ir.ops import RETURNS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.passes.call_graph import CallGraph, FunctionCopier, Symbols, callee_of, original_name, retarget
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import operations
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.constants import preserves_constants, split_constants
from shardwright.propagation.working import GROUP, NAMED, Working, special_ops

__all__ = ["constant_or_scalar_splitter"]

_CALL = "func.call"


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
            replace_by(op, renamed(op, "sdy.constant").results)
    splitter = _FunctionSplitter(module)
    for function in CallGraph(module).callees_first():
        splitter.split(function)


class _Numbered:
    """A function in numbers, whatever it holds: of ops their names, types and regions, no more is needed here.

    Attributes:
        root: The function as an op, its blocks as regions.
        working: The program of that op alone.
        handles: The ops as they stand in the module.
        values: The values by number.
    """

    def __init__(self, function: Any) -> None:
        self.handles: dict[Op, Any] = {}
        self.values: dict[int, Any] = {}
        self._numbers: dict[Any, int] = {}
        self._types: dict[Any, TensorType] = {}
        self._signatures: dict[object, Signature] = {}  # ops that are alike have one
        self.working = Working.empty()
        self.root = self._op(function)
        self.working.block.ops.append(self.root)
        self.working.special = special_ops(self.working.block)

    def connect(self, handle: Any, op: Op) -> None:
        """Let an op of the module read what `op` reads."""
        for index, value in enumerate(op.operands):
            handle.operands[index] = self.values[value]

    def _op(self, handle: Any) -> Op:
        try:
            operands = tuple([self._numbers[value] for value in handle.operands])
        except KeyError:  # it reads what a block that stands further down makes
            operands = self._numbered(handle.operands)
        results = self._numbered(handle.results)
        within = handle.regions
        regions = tuple([self._block(block) for region in within for block in region.blocks]) if len(within) else ()
        types = self.working.types
        key = handle.name, len(operands), *[id(types[value]) for value in (*operands, *results)]
        signature = self._signatures.get(key)
        if signature is None:
            read, made = (tuple([types[value] for value in values]) for values in (operands, results))
            signature = self._signatures[key] = Signature(handle.name, (), read, made)
        op = Op(signature, operands, results, regions)
        self.handles[op] = handle
        return op

    def _block(self, block: Any) -> Block:
        return Block(self._numbered(block.arguments), [self._op(view.operation) for view in block.operations])

    def _numbered(self, values: Any) -> tuple[int, ...]:
        numbers = []
        for value in values:
            new = len(self.working.types)
            number = self._numbers.setdefault(value, new)
            if number == new:
                type = value.type
                if type not in self._types:
                    self._types[type] = TensorType.parse(str(type))
                self.working.new_value(self._types[type])
                self.values[number] = value
            numbers.append(number)
        return tuple(numbers)


class _FunctionSplitter:
    """Splits functions, callees first.

    Attributes:
        symbols: The functions by name.
        computations: Named computations, by name, that hold more than constant expressions can.
        functions: The same of functions, by the names that they were copied from.
    """

    def __init__(self, module: ir.Module) -> None:
        self.symbols = Symbols(module)
        self.copier = FunctionCopier(self.symbols)
        self.computations: set[str] = set()
        self.functions: set[str] = set()

    @uncollected
    def split(self, function: Any) -> None:
        """Split a function and the named computations in it."""
        read = _Numbered(function)
        constant: set[Op] = set()
        for owner in (*read.working.special.get(NAMED, ()), read.root):
            constant.update(self._constant(owner, read))
        for split in split_constants(read.working, constant.__contains__):
            for copy, original, place in split.copies:
                new = read.handles[original].clone(ip=ir.InsertionPoint(read.handles[place]))
                read.values.update(zip(copy.results, new.results, strict=True))
                read.connect(new, copy)
                if copy.name == _CALL:
                    retarget(new, self.copier.copy(self.symbols.ops[callee_of(new)]))
            for op in split.readers:
                read.connect(read.handles[op], op)
            for op in split.dead:
                handle = read.handles[op]
                if not any(True for result in handle.results for _ in result.uses):  # a block further up may read it
                    erase(handle)

    def _constant(self, owner: Op, read: _Numbered) -> Iterator[Op]:
        """The calls and named computations within a function or computation that hold constant expressions alone."""
        is_known = False  # that they hold more
        for op in (op for block in owner.regions for op in block.walk(opaque=(NAMED,))):  # computations from outside
            name = op.signature.name
            if name in (_CALL, NAMED) and self._holds_constants(read.handles[op]):
                yield op
            elif not is_known and name not in RETURNS and name != GROUP and not preserves_constants(op.signature):
                is_known = True
                if owner is not read.root:
                    self.computations.add(_name(read.handles[owner]))
                self.functions.add(original_name(read.handles[read.root]))

    def _holds_constants(self, op: Any) -> bool:
        if op.name == NAMED:
            return _name(op) not in self.computations
        function = self.symbols.called(op)
        return len(function.regions[0].blocks) > 0 and original_name(function) not in self.functions


def _name(computation: Any) -> str:
    return str(computation.attributes["name"].value)
