"""Propagated program → explicit program: every op local, every communication an op.

Ops are taken in order. Each is split as `assign` says; its operands are brought into the layouts that it needs; its
results stay in the layout they are computed in (partial, perhaps) until somebody needs another. So a partial sum
is reduced as late as possible, once, and as a reduce_scatter where a shard of it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.partition.assign import assign
from shardwright.partition.bodies import copied_body
from shardwright.partition.boundary import check_boundary
from shardwright.partition.check import check
from shardwright.partition.inner import emit_reduced
from shardwright.partition.kinds import check_kinds
from shardwright.partition.notes import (
    Note,
    alone_notes,
    body_notes,
    cut_notes,
    is_unknown,
    remove_unread,
    unread_notes,
    whole_notes,
)
from shardwright.partition.splits import check_supported
from shardwright.partition.targets import Targets
from shardwright.partition.values import Value, Values
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

__all__ = ["Explicit", "Note", "materialize"]


@dataclass(frozen=True, slots=True)
class Explicit:
    """An explicit program (see `partition.check`) and what is to be said of it."""

    graph: Graph
    notes: tuple[Note, ...]


@uncollected
def materialize(graph: Graph) -> Explicit:
    """Make every communication of a propagated graph explicit. The graph given is left as it is.

    A program that is explicit already (one that was written as such, and read again) is checked and given back.

    Arguments:
        graph: Every tensor has a sharding. Collectives between ops of a program that is not explicit yet ask for
            layouts; other ops may then need more of them.

    Raises:
        ShardingError: an op that has no meaning on one device, a value without sharding, no mesh, or a sharding that
            cannot be partitioned: with offsets or halos, of an argument that is partial by another kind than sum, or
            of a value that is partial by another kind than its op combines by.
    """
    check_kinds(graph)
    check_boundary(graph)
    if graph.stage is Stage.EXPLICIT:
        check(graph)
        return Explicit(_with_results(graph), tuple(unread_notes(graph)))
    return _Materializer(graph).run()


def _with_results(graph: Graph) -> Graph:
    """An explicit program whose results lie as the values that it returns, where it does not say how."""
    main = graph.main
    returned = [graph.shardings[value] for value in main.block.terminator.operands]
    shardings = [said or layout for said, layout in zip(main.result_shardings, returned, strict=True)]
    return (
        graph if None not in main.result_shardings else replace(graph, main=replace(main, result_shardings=shardings))
    )


class _Materializer:
    def __init__(self, source: Graph) -> None:
        self.source = source
        self.graph = source.skeleton(Stage.EXPLICIT)
        self.builder = Builder(self.graph, self.graph.main.block.ops)
        self.values = Values(self.builder)
        self.env: dict[int, Value] = {}
        self.notes: list[Note] = []
        self.targets = Targets(source)
        self.mesh = self.targets.mesh
        self.uses = _count_uses(source)
        self._handlers: dict[str, Callable[[Op], None]] = {
            "stablehlo.broadcast_in_dim": self._broadcast,
            "stablehlo.while": self._while,
            "stablehlo.case": self._case,
            "stablehlo.if": self._case,
            "stablehlo.optimization_barrier": self._barrier,
            **dict.fromkeys(LAYOUTS, self._layout),
            "sdy.sharding_group": lambda op: None,
            "sdy.manual_computation": self._manual,
            "sdy.named_computation": self._inline,
        }

    def run(self) -> Explicit:
        main, made = self.source.main, self.graph.main
        arguments = tuple(map(self.targets.argument, main.block.arguments))
        made.block = self._block(main.block, arguments, ops=made.block.ops)
        returned = main.block.terminator.operands
        self._ops(main.block.ops[:-1])
        self.builder.location = main.block.terminator.location
        operands = [self.values.want(self.env[v], s) for v, s in zip(returned, self.targets.results, strict=True)]
        self.builder.append(main.block.terminator.signature, operands)
        made.result_shardings = list(self.targets.results)
        notes = (*cut_notes(self.source), *alone_notes(self.source), *self.notes, *remove_unread(self.graph))
        return Explicit(self.graph, notes)

    # --- values

    def _define(self, value: int, made: int, layout: TensorSharding | None) -> None:
        """Say that `made` of the new graph is `value` of the old, in this layout."""
        type = self.source.types[value]
        known = Value(type, self.targets.of(value), self.uses[value], [(layout, made)])
        if type.is_tensor and type.elements == 0:
            known.make = lambda layout: self.builder.append(_nothing(type), (), (layout,))[0]
        self.env[value] = known

    def _want_all(self, values: tuple[int, ...], layouts: tuple[TensorSharding | None, ...]) -> list[int]:
        return [self.values.want(self.env[v], layout) for v, layout in zip(values, layouts, strict=True)]

    # --- blocks

    def _block(self, block: Block, layouts: tuple[TensorSharding | None, ...], ops: list[Op]) -> Block:
        """A new block whose arguments have these layouts, ops to be appended to `ops`."""
        arguments = []
        for value, layout in zip(block.arguments, layouts, strict=True):
            made = self.graph.new_value(self.source.types[value], layout)
            self._define(value, made, layout)
            arguments.append(made)
        return Block(tuple(arguments), ops)

    def _region(
        self, block: Block, layouts: tuple[TensorSharding | None, ...], yields: tuple[TensorSharding | None, ...]
    ) -> Block:
        """A region with these layouts of its arguments and of what it yields."""
        outer, self.builder.ops = self.builder.ops, []
        self.values.enter()
        made = self._block(block, layouts, self.builder.ops)
        self._ops(block.ops[:-1])
        self.builder.location = block.terminator.location
        operands = self._want_all(block.terminator.operands, yields)
        self.builder.append(block.terminator.signature, operands)
        self.values.leave()
        self.builder.ops = outer
        return made

    def _ops(self, ops: list[Op]) -> None:
        for op in ops:
            self.builder.location = op.location
            handler = self._handlers.get(op.name)
            if handler is not None:
                handler(op)
            elif facts_of(op.name).constant:
                self._free(op)
            elif op.regions:
                raise ShardingError(
                    f"{op.name} is not known",
                    op=op.signature.label,
                    location=str(self.source.locations[op.location]),
                    cause="it has regions whose meaning is not known",
                    remedy="use stablehlo.while, stablehlo.case or a function call",
                )
            else:
                self._split(op)

    # --- ops

    def _split(self, op: Op) -> None:
        """Any op without regions: split it, bring its operands where they must be."""
        signature = op.signature
        check_supported(signature, lambda: str(self.source.locations[op.location]))
        operands = [self.env[value] for value in op.operands]
        targets = tuple(
            [self.targets.of(value) or replicated(self.mesh, self.source.types[value].rank) for value in op.results]
        )
        sources = tuple([operand.source for operand in operands])
        passing = frozenset(
            [i for i, operand in enumerate(operands) if operand.uses == 1 and operand.source and sources[i][0].partial]
        )
        if not targets and not any(sources):  # tokens, and what any device can make
            whole = [replicated(self.mesh, value.type.rank) for value in operands]
            self._define_results(op, self.builder.append(signature, list(map(self.values.want, operands, whole))), ())
            return
        wanted = tuple(
            [self.targets.contributions.get(value, target) for value, target in zip(op.results, targets, strict=True)]
        )
        choice = assign(signature, sources, wanted, passing)
        if choice.gathered or choice.whole or is_unknown(signature):
            self.notes += whole_notes(self.source, op, choice, sources, targets)
        needed = [self.values.want(v, s) for v, s in zip(operands, choice.operands, strict=True)]
        self.builder.location = op.location
        if choice.kind != "sum" and any(result.partial for result in choice.results):
            results, layouts = emit_reduced(self.builder, signature, needed, choice, targets)
        else:
            results, layouts = self.builder.append(signature, needed, choice.results), choice.results
        self._define_results(op, results, layouts)

    def _define_results(self, op: Op, made: tuple[int, ...], layouts: tuple[TensorSharding, ...]) -> None:
        for number, (value, result) in enumerate(zip(op.results, made, strict=True)):
            layout = layouts[number] if layouts and self.source.types[value].is_tensor else None
            self.graph.shardings[result] = layout
            self._define(value, result, layout)

    def _free(self, op: Op) -> None:
        """A constant or iota: any device can make any shard of it."""
        self._define_free(op, lambda layout: self.builder.append(op.signature, (), (layout,))[0])

    def _broadcast(self, op: Op) -> None:
        """A broadcast scalar is made where it is needed, in the layout needed."""
        if self.source.types[op.operands[0]].rank:
            self._split(op)
            return
        scalar = self.env[op.operands[0]]
        whole = replicated(self.mesh, 0)

        def make(layout: TensorSharding) -> int:
            return self.builder.append(op.signature, (self.values.want(scalar, whole),), (layout,))[0]

        self._define_free(op, make)

    def _define_free(self, op: Op, make: Callable[[TensorSharding], int]) -> None:
        (result,) = op.results
        location = op.location

        def made(layout: TensorSharding) -> int:
            outer, self.builder.location = self.builder.location, location
            number = make(layout)
            self.builder.location = outer
            return number

        self.env[result] = Value(self.source.types[result], self.targets.of(result), self.uses[result], [], made)

    def _layout(self, op: Op) -> None:
        """A request for a layout: reshard now; other layouts of the value stay known."""
        (result,) = op.results
        value = self.env[op.operands[0]]
        target = self.targets.of(result)
        if value.make is None:
            self.values.want(value, target)
        self.env[result] = Value(value.type, target, self.uses[result] + value.uses - 1, value.versions, value.make)

    def _barrier(self, op: Op) -> None:
        layouts = self.targets.all(op.results)
        operands = self._want_all(op.operands, layouts)
        for value, made, layout in zip(
            op.results, self.builder.append(op.signature, operands, layouts), layouts, strict=True
        ):
            self._define(value, made, layout)

    def _while(self, op: Op) -> None:
        """The values carried round keep one layout: on entry, in both regions, on yield and on exit."""
        layouts = self.targets.all(op.results)
        operands = self._want_all(op.operands, layouts)
        condition, body = op.regions
        one = replicated(self.mesh, 0)
        regions = (self._region(condition, layouts, (one,)), self._region(body, layouts, layouts))
        self.builder.location = op.location
        for value, made, layout in zip(
            op.results, self.builder.append(op.signature, operands, layouts, regions), layouts, strict=True
        ):
            self._define(value, made, layout)

    def _case(self, op: Op) -> None:
        """All branches yield the layouts of the results."""
        layouts = self.targets.all(op.results)
        index = self.values.want(self.env[op.operands[0]], replicated(self.mesh, 0))
        regions = tuple(self._region(region, (), layouts) for region in op.regions)
        self.builder.location = op.location
        for value, made, layout in zip(
            op.results, self.builder.append(op.signature, (index,), layouts, regions), layouts, strict=True
        ):
            self._define(value, made, layout)

    def _inline(self, op: Op) -> None:
        """A named computation is its body."""
        (block,) = op.regions
        for argument, operand in zip(block.arguments, op.operands, strict=True):
            self.env[argument] = self.env[operand]
        self._ops(block.ops[:-1])
        for result, value in zip(op.results, block.terminator.operands, strict=True):
            self.env[result] = self.env[value]

    def _manual(self, op: Op) -> None:
        """A computation written per device: its operands are brought where it says, its body stays as it is."""
        boundary = op.signature.boundary.layouts()
        ins, outs = boundary.in_shardings or (), boundary.out_shardings or ()
        if boundary.free_axes:
            raise ShardingError(
                f"sdy.manual_computation leaves the axes {', '.join(boundary.free_axes)} free",
                op=op.name,
                location=str(self.source.locations[op.location]),
                cause="its body would have to be partitioned further along them",
                remedy="make the computation manual over all axes that its shardings use",
            )
        operands = self._want_all(op.operands, ins)
        self.notes += body_notes(self.source, op, set(boundary.manual_axes))
        region = copied_body(self.source, self.graph, op.regions[0])
        self.builder.location = op.location
        signature = replace(op.signature, boundary=boundary)
        for value, made, layout in zip(
            op.results, self.builder.append(signature, operands, outs, (region,)), outs, strict=True
        ):
            self._define(value, made, layout)


def _nothing(type: TensorType) -> Signature:
    """A constant without elements: what holds nothing need not be moved."""
    return Signature("stablehlo.constant", (("value", f"dense<> : {type}"),), (), (type,))


def _count_uses(graph: Graph) -> list[int]:
    uses = [0] * len(graph.types)
    for op in graph.walk():
        if op.name == "sdy.sharding_group":
            continue
        for value in op.operands:
            uses[value] += 1
    return uses
