"""Decisions → explicit program: every op local, every communication an op. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.bodies import copied_body
from shardwright.partition.decisions import AtUses, Computed, Decisions, Fresh, Layout, PassedOn, Version
from shardwright.partition.emit import emit_steps
from shardwright.partition.inner import emit_reduced
from shardwright.partition.scope import Scope
from shardwright.stage import Stage

__all__ = ["write"]


def write(graph: Graph, decisions: Decisions) -> Graph:
    """The explicit program that was decided on for a propagated graph, which is left as it is."""
    return _Writer(graph, decisions).run(decisions)


class _Writer:
    def __init__(self, source: Graph, decisions: Decisions) -> None:
        self.source = source
        self.decisions = dict(zip(source.walk(), decisions.ops, strict=True))
        self.graph = source.skeleton(Stage.EXPLICIT)
        self.builder = Builder(self.graph, [])
        self.scope = Scope()
        self.versions: dict[int, dict[Layout, int]] = {}
        self.makers: dict[int, Op] = {}

    def run(self, decisions: Decisions) -> Graph:
        main = self.graph.main
        main.block = self._block(self.source.main.block, decisions.arguments)
        main.result_shardings = list(decisions.results)
        return self.graph

    def _block(self, block: Block, layouts: Sequence[Layout]) -> Block:
        """A block whose arguments have these layouts."""
        arguments = [
            self.graph.new_value(self.source.types[v], s) for v, s in zip(block.arguments, layouts, strict=True)
        ]
        self._define(block.arguments, arguments, layouts)
        outer, self.builder.ops = self.builder.ops, []
        with self.scope.region():
            self._ops(block.ops)
        made, self.builder.ops = Block(tuple(arguments), self.builder.ops), outer
        return made

    def _ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            decision = self.decisions[op]
            self.builder.location = op.location
            match decision:
                case Computed():
                    self._compute(op, decision)
                case PassedOn():
                    self._make_versions(decision.before)
                    self._pass_on(op)
                case AtUses():
                    (result,) = op.results
                    self.versions[result], self.makers[result] = {}, op

    # --- values

    def _define(self, values: Sequence[int], made: Sequence[int], layouts: Sequence[Layout]) -> None:
        """Say that values of the new graph are those of the old, in these layouts."""
        for value, number, layout in zip(values, made, layouts, strict=True):
            self.versions[value] = {layout: number}

    def _read(self, values: tuple[int, ...], layouts: tuple[Layout, ...]) -> list[int]:
        return [self.versions[value][layout] for value, layout in zip(values, layouts, strict=True)]

    def _make_versions(self, before: tuple[Version, ...]) -> None:
        """Make versions of values."""
        for version in before:
            versions = self.versions[version.value]
            if isinstance(version, Fresh):
                self.scope.add(versions, version.layout, self._fresh(version))
                continue
            taken = emit_steps(self.builder, versions[version.source], version.source, version.steps)
            for layout, number in taken:
                self.scope.add(versions, layout, number)

    def _fresh(self, version: Fresh) -> int:
        maker = self.makers.get(version.value)
        if maker is None:
            return self.builder.append(_nothing(self.source.types[version.value]), (), (version.layout,))[0]
        outer, self.builder.location = self.builder.location, maker.location
        self._make_versions(version.before)
        operands = self._read(maker.operands, version.operands)
        (number,) = self.builder.append(maker.signature, operands, (version.layout,))
        self.builder.location = outer
        return number

    # --- ops

    def _compute(self, op: Op, decision: Computed) -> None:
        """The op itself, after what is made for it."""
        if decision.before:
            self._make_versions(decision.before)
        operands = self._read(op.operands, decision.operands)
        layouts: Sequence[Layout] = decision.results
        if decision.within:
            made, layouts = emit_reduced(self.builder, op.signature, operands, decision)
        elif op.regions:
            signature, regions = self._with_regions(op, decision)
            self.builder.location = op.location
            made = self.builder.append(signature, operands, layouts, regions)
        else:
            made = self.builder.append(op.signature, operands, layouts)
        self._define(op.results, made, layouts)

    def _with_regions(self, op: Op, decision: Computed) -> tuple[Signature, tuple[Block, ...]]:
        """The signature of an op, and its regions: a body for one device as it is, all others as decided."""
        if op.name == "sdy.manual_computation":
            signature = replace(op.signature, boundary=op.signature.boundary.layouts())
            return signature, (copied_body(self.source, self.graph, op.regions[0]),)
        results = decision.results
        return op.signature, tuple([self._block(block, results if block.arguments else ()) for block in op.regions])

    def _pass_on(self, op: Op) -> None:
        """Nothing for an op whose results are its operands, or those of its body, which stands in its place."""
        yielded = op.operands
        for body in op.regions:
            for argument, operand in zip(body.arguments, op.operands, strict=True):
                self.versions[argument] = self.versions[operand]
            self._ops(body.ops[:-1])
            yielded = body.terminator.operands
        for result, value in zip(op.results, yielded, strict=True):
            self.versions[result] = self.versions[value]


def _nothing(type: TensorType) -> Signature:
    """A constant without elements: what holds nothing need not be moved."""
    return Signature("stablehlo.constant", (("value", f"dense<> : {type}"),), (), (type,))
