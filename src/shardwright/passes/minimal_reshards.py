"""The reshards that a partitioner is not left to find: what `sdy-insert-explicit-reshards` inserts by default.

- Sums that a value awaits, and a use of it does not, are made; those that a loop, a branch, a computation or a function
  says it is given, and is not, are left to be made.
- Calls are given what the function says of its arguments.
- Concatenations and products: see `factor_reshards`.

All else stays implied by the shardings, for the partitioner to choose. Collectives that a program brings with it are
its own affair. Where the C++ pass ends the process (sums over two meshes, an op that reads a value that awaits one and
has no results), what the shardings imply stays implied.

Source: the pass insert-explicit-reshards of OpenXLA's Shardy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.boundary import without_manual_axes
from shardwright.ir.context import ir
from shardwright.ir.graph import Op
from shardwright.ir.ops import COMPUTATIONS
from shardwright.passes.call_graph import Symbols
from shardwright.passes.edits import behind, replace_by, terminator_of
from shardwright.passes.factor_reshards import Seen, reduce_factors, reshard_alike, reshard_product, see
from shardwright.passes.module_graph import read_module_graph
from shardwright.passes.module_ops import ARGUMENTS, RESULTS, functions, manual_axes_of, operations
from shardwright.passes.module_shardings import Shardings, unsaid
from shardwright.passes.reshards_at_uses import Use, UseReshards
from shardwright.rules.registry import rule_of
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding

__all__ = ["insert_minimal_reshards"]

_CALL, _CONCATENATE, _RESHARD = "func.call", "stablehlo.concatenate", "sdy.reshard"
"""The ops that may need something though nothing awaits a sum."""

Edge = tuple[TensorSharding | None, list[Use]]
"""What is said of a value that data flows to, and where it flows in."""


def insert_minimal_reshards(module: ir.Module) -> None:
    """Insert them into every function.

    Raises:
        ShardingError: a call of a function that is not there, or what a graph cannot hold: dynamic shapes, regions of
            several blocks.
    """
    inserting = _Inserting(module)
    for function in functions(module):
        if function.regions[0].blocks:
            inserting.function(function)


class _Inserting:
    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.shardings = Shardings(module)
        self.reshards = UseReshards(self.shardings)
        # One print is quicker than a look at the attributes of every op.
        self.sums = "unreduced=" in str(module.operation.get_asm(large_elements_limit=16))

    @cached_property
    def ops(self) -> dict[Any, Op]:
        """The ops by their first results, for the hash of an op's handle changes with it. Most modules need none."""
        pairs = [pair for part in read_module_graph(self.module).parts for pair in part.ops]
        return {handle.results[0]: op for handle, op in pairs if op.results}

    @cached_property
    def symbols(self) -> Symbols:
        return Symbols(self.module)

    def function(self, function: Any) -> None:
        """Visit all ops of a function, those in regions first, and what it returns last."""
        self.reshards.read_arguments(function)
        for op in operations(function, inner_first=True)[:-1]:
            if self.sums or op.name in (_CALL, _CONCATENATE) or facts_of(op.name).product:
                self._visit(op)
        if self.sums:
            self._return(function)

    def _visit(self, op: Any) -> None:
        edges = list(self._edges(op))
        for target, uses in edges:
            for use in uses:
                self._pass_on(use, target, behind(use.value))
        if op.name == _CALL:
            self._call(op)
        elif op.results and not edges and "out_sharding" not in op.attributes:
            self._op(op)

    def _pass_on(self, use: Use, target: TensorSharding | None, at: Any) -> bool:
        """Make sums, and leave sums to be made, as a use wants; whether any are left to be."""
        self.reshards.reduce(use, target, at)
        return self.reshards.leave_unreduced(use, target, at)

    # Where data flows

    def _edges(self, op: Any) -> Iterator[Edge]:
        name, results = op.name, op.results
        if name == "stablehlo.while":
            ends = [op, _terminator(op.regions[1])]
        elif name == "stablehlo.case":
            ends = [_terminator(region) for region in op.regions]
        elif name == "stablehlo.optimization_barrier":
            ends = [op]
        else:
            if name in COMPUTATIONS:
                yield from self._computation(op)
            return
        for index, value in enumerate(results):
            yield self.reshards.of(value), [Use(end, index) for end in ends]

    def _computation(self, op: Any) -> Iterator[Edge]:
        manual = manual_axes_of(op)
        end = _terminator(op.regions[0])
        for index, sharding in enumerate(self._boundary(op, "out_shardings", len(op.results))):
            yield None if sharding is None else without_manual_axes(sharding, manual), [Use(end, index)]
        for index, sharding in enumerate(self._boundary(op, "in_shardings", len(op.operands))):
            yield sharding, [Use(op, index)]

    def _boundary(self, op: Any, which: str, count: int) -> tuple[TensorSharding | None, ...]:
        return self.shardings.read(op.attributes[which]) if which in op.attributes else (None,) * count

    def _return(self, function: Any) -> None:
        end = _terminator(function.regions[0])
        at = ir.InsertionPoint(end)
        for index, target in enumerate(self.shardings.of_rows(function, RESULTS)):
            self._pass_on(Use(end, index), target, at)

    # Ops

    def _call(self, op: Any) -> None:
        function = self.symbols.called(op)
        types = [value.type for value in op.operands]
        targets = self.shardings.of_all(function, ARGUMENTS)
        if targets is None:
            shardings = map(self.reshards.of, op.operands)
            mesh = next((s.mesh for s in shardings if s is not None and not s.mesh.is_maximal), None)
            if mesh is None:
                return
            targets = tuple(unsaid(mesh, type, open=False) for type in types)
        for index, sharding in enumerate(targets):
            use = Use(op, index)
            at = behind(use.value)
            self._pass_on(use, sharding, at)
            self.reshards.reshard(use, sharding, at)

    def _op(self, op: Any) -> None:
        result = op.results[0]
        own = self.reshards.of(result)
        differ = op.name == _CONCATENATE and any(self.reshards.of(value) != own for value in op.operands)
        if self.sums:
            at = ir.InsertionPoint(op)
            if op.name == _RESHARD and self._pass_on(Use(op, 0), own, at):
                self.reshards.forget(result)
                replace_by(op, op.operands)
                return
            for index in range(len(op.operands)):
                self.reshards.reduce(Use(op, index), own, at)
        is_product = facts_of(op.name).product and own is not None
        awaits = own is not None and bool(own.partial)
        if differ or is_product or awaits:
            self._factors(op, differ, is_product, awaits)

    def _factors(self, op: Any, differ: bool, is_product: bool, awaits: bool) -> None:
        seen = self._seen(op)
        if seen is None:
            return
        if differ:
            reshard_alike(seen, self.reshards)
        elif is_product:
            reshard_product(seen, self.reshards)
        if awaits:
            reduce_factors(seen, self.reshards)

    def _seen(self, op: Any) -> Seen | None:
        read = self.ops.get(op.results[0])
        if read is None:
            return None

        def maker(value: int) -> Op | None:
            """What makes an operand now: a sum may stand before it."""
            made = op.operands[read.operands.index(value)]
            return None if isinstance(made, ir.BlockArgument) else self.ops.get(made.owner.results[0])

        rule = rule_of(read, maker)
        return None if rule is None else see(op, rule, self.reshards)


def _terminator(region: Any) -> Any:
    return terminator_of(region.blocks[0])
