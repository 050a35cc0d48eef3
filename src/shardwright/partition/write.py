"""Decisions → explicit program: every op local, every communication an op. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.bodies import body_layouts, copied_body, even_boundary
from shardwright.partition.decisions import Computed, Decision, Decisions, Fresh, Layout, PassedOn, Version
from shardwright.partition.emit import emit_steps
from shardwright.partition.scope import Scope
from shardwright.stage import Stage
from shardwright.words import counted

__all__ = ["write", "written"]


def write(graph: Graph, decisions: Decisions) -> Graph:
    """The explicit program that was decided on for a propagated graph, which is left as it is.

    Raises:
        ShardingError: decisions about another program, or ones that name a version of a value that is not there.
    """
    ops = graph.walk()
    if len(decisions.ops) != len(ops):
        raise ShardingError(
            f"{counted(len(decisions.ops), 'decision')} for a program of {counted(len(ops), 'op')}",
            cause="decisions stand in the order of the ops that they are about, one for each",
            remedy="write them with the propagated graph that they were made for",
        )
    return _Writer(graph, dict(zip(ops, decisions.ops, strict=True))).run(decisions)


def written(
    graph: Graph,
    into: Graph,
    op: Op,
    decision: Decision,
    versions: dict[int, dict[Layout, int]],
    makers: Mapping[int, Op],
) -> list[Op]:
    """The explicit ops that a single op without regions becomes.

    Arguments:
        graph: The propagated graph.
        into: Gets the values that are made.
        op: The op.
        decision: What becomes of it.
        versions: The versions of values that are there before it; gets those that are made.
        makers: The ops of values that are computed where they are read.

    Raises:
        ShardingError: as of `write`.
    """
    writer = _Writer(graph, {op: decision}, into)
    writer.versions, writer.makers = versions, dict(makers)
    writer.write_ops([op])
    return writer.builder.ops


class _Writer:
    def __init__(self, source: Graph, decisions: dict[Op, Decision | None], into: Graph | None = None) -> None:
        self.source = source
        self.decisions = decisions
        self.graph = source.skeleton(Stage.EXPLICIT) if into is None else into
        self.builder = Builder(self.graph, [])
        self.scope = Scope()
        self.versions: dict[int, dict[Layout, int]] = {}
        self.makers: dict[int, Op] = {}
        self.op = source.main.block.terminator
        self.around: tuple[str, ...] = ()

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
        outer, self.builder.ops = self.builder.ops, []
        self._define(block.arguments, arguments, layouts)
        self.write_ops(block.ops)
        made, self.builder.ops = Block(tuple(arguments), self.builder.ops), outer
        return made

    def _region(self, block: Block, layouts: Sequence[Layout]) -> Block:
        """A block of an op, whose values are there until its end."""
        around = len(self.versions)
        with self.scope.region():
            made = self._block(block, layouts)
        for _ in range(len(self.versions) - around):
            self.versions.popitem()
        return made

    def write_ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            decision = self.decisions[op]
            self.builder.location, self.op = op.location, op
            if isinstance(decision, Computed):
                self._compute(op, decision)
            elif isinstance(decision, PassedOn):
                self._make_versions(decision.before)
                self._pass_on(op)
            elif decision is not None:  # at its uses
                (result,) = op.results
                self.versions[result], self.makers[result] = {}, op

    # --- values

    def _define(self, values: Sequence[int], made: Sequence[int], layouts: Sequence[Layout]) -> None:
        """Say that values of the new graph are those of the old, in these layouts."""
        versions = self.versions
        for value, number, layout in zip(values, made, layouts, strict=True):
            versions[value] = {layout: number}

    def _read(self, values: tuple[int, ...], layouts: tuple[Layout, ...]) -> list[int]:
        """The values of the new graph that are these versions."""
        if len(values) != len(layouts):
            raise self._unfit(f"{counted(len(layouts), 'version')} for {counted(len(values), 'operand')}")
        versions = self.versions
        try:
            return [versions[value][layout] for value, layout in zip(values, layouts, strict=True)]
        except KeyError:
            raise next(
                self._absent(value, layout)
                for value, layout in zip(values, layouts, strict=True)
                if layout not in self.versions.get(value, {})
            ) from None

    def _make_versions(self, before: tuple[Version, ...]) -> None:
        """Make versions of values."""
        for version in before:
            if isinstance(version, Fresh):
                number = self._fresh(version)
                self.scope.add(self.versions[version.value], version.layout, number)
                continue
            (source,) = self._read((version.value,), (version.source,))
            versions = self.versions[version.value]
            for layout, number in emit_steps(self.builder, source, version.source, version.steps):
                self.scope.add(versions, layout, number)

    def _fresh(self, version: Fresh) -> int:
        maker = self.makers.get(version.value)
        if version.value not in self.versions:
            raise self._absent(version.value, version.layout)
        if maker is None:
            type = self.source.types[version.value]
            if type.elements:
                raise self._unfit(f"value %{version.value} would be made anew, and holds what no device can make")
            return self.builder.append(_nothing(type), (), (version.layout,))[0]
        outer, self.builder.location = self.builder.location, maker.location
        self._make_versions(version.before)
        operands = self._read(maker.operands, version.operands)
        (number,) = self.builder.append(maker.signature, operands, (version.layout,))
        self.builder.location = outer
        return number

    # --- decisions that cannot be written

    def _absent(self, value: int, layout: Layout) -> ShardingError:
        there = self.versions.get(value)
        known = ", ".join(map(repr, there)) if there else "in no version"
        cause = (
            "it is not computed before this op, or in another region" if there is None else f"it is there as {known}"
        )
        return self._unfit(f"value %{value} is read as {layout!r} and is not there so", cause)

    def _unfit(self, message: str, cause: str = "") -> ShardingError:
        return ShardingError(
            f"the decision cannot be written: {message}",
            op=self.op.signature.label,
            location=str(self.source.locations[self.op.location]),
            cause=cause,
            remedy="read versions that are made before: results of ops as decided, or those of `before`",
        )

    # --- ops

    def _compute(self, op: Op, decision: Computed) -> None:
        """The op itself, between what is made for it and what is made of it."""
        if decision.before:
            self._make_versions(decision.before)
        operands = self._read(op.operands, decision.operands)
        if len(decision.results) != len(op.results):
            raise self._unfit(f"{counted(len(decision.results), 'layout')} for {counted(len(op.results), 'result')}")
        layouts = decision.results
        if op.regions:
            signature, regions = self._with_regions(op, decision)
            self.builder.location = op.location
            made = self.builder.append(signature, operands, layouts, regions)
        else:
            made = self.builder.append(op.signature, operands, layouts)
        self._define(op.results, made, layouts)
        if decision.after:
            self._make_versions(decision.after)
            for version in decision.after:
                self.versions[version.value].pop(version.source, None)

    def _with_regions(self, op: Op, decision: Computed) -> tuple[Signature, tuple[Block, ...]]:
        """The signature of an op, and its regions: a body for one device as it is, all others as decided."""
        if op.name == MANUAL:
            (body,) = op.regions
            boundary = even_boundary(op.signature, self.around)
            signature = replace(op.signature, boundary=boundary)
            if self.decisions[body.terminator] is None:
                return signature, (copied_body(self.source, self.graph, body),)
            around, self.around = self.around, (*self.around, *boundary.manual_axes)
            made = self._region(body, body_layouts(op.signature.operands, boundary.in_shardings, boundary.manual_axes))
            self.around = around
            return signature, (made,)
        results = decision.results
        return op.signature, tuple([self._region(block, results if block.arguments else ()) for block in op.regions])

    def _pass_on(self, op: Op) -> None:
        """Nothing for an op whose results are its operands, or those of its body, which stands in its place."""
        yielded = op.operands
        for body in op.regions:
            for argument, operand in zip(body.arguments, op.operands, strict=True):
                self.versions[argument] = self.versions[operand]
            self.write_ops(body.ops[:-1])
            yielded = body.terminator.operands
        for result, value in zip(op.results, yielded, strict=True):
            self.versions[result] = self.versions[value]


def _nothing(type: TensorType) -> Signature:
    """A constant without elements: what holds nothing need not be moved."""
    return Signature("stablehlo.constant", (("value", f"dense<> : {type}"),), (), (type,))
