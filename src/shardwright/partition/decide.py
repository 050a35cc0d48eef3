"""Propagated program → decisions: how each op is split, and which versions of values are made where.

Ops are taken in order. Each is split as `assign` says; its operands are brought into the layouts that it needs; its
results stay in the layout they are computed in (partial, perhaps) until somebody needs another. So a partial sum
is reduced as late as possible, once, and as a reduce_scatter where a shard of it is needed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.types import TensorType
from shardwright.partition.assign import assign
from shardwright.partition.bodies import check_body, unknown_regions
from shardwright.partition.decisions import AtUses, Computed, Decision, Decisions, Layout, PassedOn, Reshard
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.note import Note
from shardwright.partition.notes import body_notes, is_unknown, whole_notes
from shardwright.partition.splits import check_supported
from shardwright.partition.targets import Targets
from shardwright.partition.values import Value, Values
from shardwright.reshard.plan import plan
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding, replicated
from shardwright.steps import AllReduce, ReduceScatter, Step, layouts_after

__all__ = ["decide"]


def decide(graph: Graph) -> Decisions:
    """Decide how every op of a propagated graph is computed, and how every value that it reads comes where it needs it.

    Raises:
        ShardingError: no mesh, an op that has no meaning on one device or regions of no known meaning, a manual
            computation that leaves axes free, or contributions of a kind that cannot be made.
    """
    return _Decider(graph).run()


class _Decider:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.targets = Targets(graph)
        self.mesh = self.targets.mesh
        self.values = Values(self.mesh)
        self.uses = _count_uses(graph)
        self.env: dict[int, Value] = {}
        self.decisions: dict[Op, Decision] = {}

    def run(self) -> Decisions:
        arguments, results = self.targets.arguments, self.targets.results
        self._block(self.graph.main.block, arguments, results)
        return Decisions(arguments, results, tuple(map(self.decisions.get, self.graph.walk())))

    # --- values

    def _define(self, values: tuple[int, ...], layouts: Sequence[Layout], targets: Sequence[Layout]) -> None:
        """Say in which layouts values are there first, and which ones propagation gave them."""
        for value, layout, target in zip(values, layouts, targets, strict=True):
            type = self.graph.types[value]
            versions = {layout: layout} if layout else {}
            fresh_from = () if layout and 0 in type.dims else None
            self.env[value] = Value(value, type, target, self.uses[value], versions, fresh_from)

    def _operands(self, op: Op) -> list[Value]:
        return [self.env[value] for value in op.operands]

    # --- blocks

    def _block(self, block: Block, layouts: tuple[Layout, ...], yields: tuple[Layout, ...]) -> None:
        """A block with these layouts of its arguments and of what it yields."""
        self._define(block.arguments, layouts, self.targets.of(block.arguments))
        self._ops(block.ops[:-1])
        self.decisions[block.terminator] = Computed(*self.values.read(self._operands(block.terminator), yields))

    def _region(self, block: Block, layouts: tuple[Layout, ...], yields: tuple[Layout, ...]) -> None:
        with self.values.scope.region():
            self._block(block, layouts, yields)

    def _ops(self, ops: list[Op]) -> None:
        for op in ops:
            name = op.name
            handler = self._HANDLERS.get(name)
            if handler is not None:
                self.decisions[op] = handler(self, op)
            elif facts_of(name).constant:
                self.decisions[op] = self._at_uses(op)
            elif op.regions:
                raise unknown_regions(self.graph, op)
            elif name != "sdy.sharding_group":
                self.decisions[op] = self._split(op)

    # --- ops

    def _split(self, op: Op) -> Computed:
        """Any op without regions: split it, bring its operands where they must be."""
        signature = op.signature
        check_supported(signature, lambda: str(self.graph.locations[op.location]))
        operands, layouts = self._operands(op), self.targets.of(op.results)
        sources = tuple([operand.source for operand in operands])
        if not layouts and not any(sources):  # tokens, and what any device can make
            return Computed(*self.values.read(operands, [replicated(self.mesh, value.type.rank) for value in operands]))
        passing = frozenset(
            [i for i, source in enumerate(sources) if source and source[0].partial and operands[i].uses == 1]
        )
        targets = tuple([layout or replicated(self.mesh, 0) for layout in layouts])
        asked = self.targets.contributed(op.results, targets)
        choice = assign(signature, sources, asked, passing, self.values.hardware)
        notes: tuple[Note, ...] = ()
        if choice.gathered or choice.whole or is_unknown(signature):
            notes = tuple(whole_notes(self.graph, op, choice, sources, targets))
        before, read = self.values.read(operands, choice.operands)
        results = choice.results if all(layouts) else _of_tensors(signature.results, choice.results)
        if choice.kind == "sum" or not any(result.partial for result in choice.results):
            self._define(op.results, results, layouts)
            return Computed(before, read, results, (), notes)
        steps = [
            () if self._stays_partial(value, layout) else _to_last_reduction(type, layout, target)
            for value, type, layout, target in zip(op.results, signature.results, choice.results, targets, strict=True)
        ]
        self._define(op.results, list(map(_layout_after, choice.results, steps)), layouts)
        made = zip(op.results, choice.results, steps, strict=True)
        after = tuple([Reshard(value, layout, taken) for value, layout, taken in made if taken])
        return Computed(before, read, results, after, notes)

    def _boundary(self, op: Op) -> Computed:
        """A pad of an uneven argument, or the slice that makes an uneven result, leaves every shard as it is."""
        into, out = self.targets.of(op.operands), self.targets.of(op.results)
        if not is_at_boundary(op.signature, into, out):
            return self._split(op)
        before, read = self.values.read(self._operands(op), into)
        self._define(op.results, out, out)
        return Computed(before, read, out)

    def _stays_partial(self, value: int, layout: TensorSharding) -> bool:
        """Whether a result that is computed so is read by nobody, or given so and not read otherwise."""
        uses = self.uses[value]
        return not uses or (uses == 1 and layout == self.targets.contributions.get(value))

    def _at_uses(self, op: Op, operands: tuple[Value, ...] = ()) -> AtUses:
        """A constant or iota: any device can make any shard of it."""
        (result,) = op.results
        type, target = self.graph.types[result], self.targets.of(op.results)[0]
        self.env[result] = Value(result, type, target, self.uses[result], {}, operands)
        return AtUses()

    def _broadcast(self, op: Op) -> Decision:
        """A broadcast scalar is made where it is needed, in the layout needed."""
        operand = self.env[op.operands[0]]
        return self._split(op) if operand.type.rank else self._at_uses(op, (operand,))

    def _layout(self, op: Op) -> PassedOn:
        """A request for a layout: reshard now; other layouts of the value stay known."""
        (result,) = op.results
        value = self.env[op.operands[0]]
        target = self.targets.of(op.results)[0]
        if value.fresh_from is None:
            self.values.bring(value, target)
        uses = self.uses[result] + value.uses - 1
        self.env[result] = Value(value.number, value.type, target, uses, value.versions, value.fresh_from)
        return PassedOn(self.values.new_versions())

    def _barrier(self, op: Op) -> Computed:
        layouts = self.targets.of(op.results)
        before, read = self.values.read(self._operands(op), layouts)
        self._define(op.results, layouts, layouts)
        return Computed(before, read, layouts)

    def _while(self, op: Op) -> Computed:
        """The values carried round keep one layout: on entry, in both regions, on yield and on exit."""
        layouts = self.targets.of(op.results)
        before, read = self.values.read(self._operands(op), layouts)
        condition, body = op.regions
        self._region(condition, layouts, (replicated(self.mesh, 0),))
        self._region(body, layouts, layouts)
        self._define(op.results, layouts, layouts)
        return Computed(before, read, layouts)

    def _case(self, op: Op) -> Computed:
        """All branches yield the layouts of the results."""
        layouts = self.targets.of(op.results)
        before, read = self.values.read(self._operands(op), (replicated(self.mesh, 0),))
        for region in op.regions:
            self._region(region, (), layouts)
        self._define(op.results, layouts, layouts)
        return Computed(before, read, layouts)

    def _inline(self, op: Op) -> PassedOn:
        """A named computation is its body."""
        (block,) = op.regions
        self.env.update(zip(block.arguments, map(self.env.__getitem__, op.operands), strict=True))
        self._ops(block.ops[:-1])
        self.env.update(zip(op.results, map(self.env.__getitem__, block.terminator.operands), strict=True))
        return PassedOn()

    def _manual(self, op: Op) -> Computed:
        """A computation written per device: its operands are brought where it says, its body stays as it is."""
        boundary = op.signature.boundary.layouts()
        if boundary.free_axes:
            raise ShardingError(
                f"sdy.manual_computation leaves the axes {', '.join(boundary.free_axes)} free",
                op=op.name,
                location=str(self.graph.locations[op.location]),
                cause="its body would have to be partitioned further along them",
                remedy="make the computation manual over all axes that its shardings use",
            )
        before, read = self.values.read(self._operands(op), boundary.in_shardings or ())
        results = _of_tensors(op.signature.results, boundary.out_shardings or ())
        self._define(op.results, results, self.targets.of(op.results))
        check_body(self.graph, op.regions[0])
        return Computed(before, read, results, notes=tuple(body_notes(self.graph, op, set(boundary.manual_axes))))

    _HANDLERS: ClassVar[dict[str, Callable[[_Decider, Op], Decision]]] = {
        "stablehlo.broadcast_in_dim": _broadcast,
        "stablehlo.pad": _boundary,
        "stablehlo.slice": _boundary,
        "stablehlo.while": _while,
        "stablehlo.case": _case,
        "stablehlo.if": _case,
        "stablehlo.optimization_barrier": _barrier,
        **dict.fromkeys(LAYOUTS, _layout),
        "sdy.manual_computation": _manual,
        "sdy.named_computation": _inline,
    }


def _to_last_reduction(type: TensorType, layout: TensorSharding, target: TensorSharding) -> tuple[Step, ...]:
    """The way of a result to its target up to the last reduction: nothing stays partial by another kind than sum."""
    steps = plan(type.dims, type.bytes // max(1, type.elements), layout, target, dtype=type.dtype).steps
    last = max((n for n, step in enumerate(steps) if isinstance(step, AllReduce | ReduceScatter)), default=-1)
    return steps[: last + 1]


def _layout_after(layout: TensorSharding, steps: tuple[Step, ...]) -> TensorSharding:
    return layouts_after(layout, steps)[-1] if steps else layout


def _of_tensors(types: tuple[TensorType, ...], layouts: Sequence[TensorSharding]) -> tuple[Layout, ...]:
    """The layouts of what are tensors."""
    return tuple([layout if type.is_tensor else None for type, layout in zip(types, layouts, strict=True)])


def _count_uses(graph: Graph) -> Counter[int]:
    reads = [op.operands for op in graph.walk() if op.name != "sdy.sharding_group"]
    return Counter(itertools.chain.from_iterable(reads))
