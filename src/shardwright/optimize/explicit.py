"""An explicit program that is being made better: its values, what its ops cost, and where they stand.

Who changes it drafts ops first (`Draft`), which are priced as they would be, and takes those that save time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from shardwright.analysis.loops import block_times
from shardwright.analysis.memory import memory, most_held
from shardwright.cost.hardware import current_hardware
from shardwright.cost.overlap import Queue, Work
from shardwright.cost.price import Cost, price
from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import COLLECTIVES, MANUAL
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.types import TensorType
from shardwright.optimize.improvement import Improvement
from shardwright.optimize.tasks import Task, Tasks
from shardwright.partition.emit import step_of
from shardwright.partition.localize import localize
from shardwright.partition.search.total import computed_cost, steps_cost
from shardwright.reshard.plan import plan
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding, same_grid
from shardwright.steps import Step, local_bytes

__all__ = ["ExplicitProgram", "Room", "is_pure", "plan_between"]

_HOLDS_MORE = frozenset({"stablehlo.custom_call", "stablehlo.optimization_barrier"})
"""Ops of which nobody knows what else they do, or that are there to stay in the way."""


class Room(NamedTuple):
    """Bytes that a device may hold.

    Attributes:
        memory: Of all, where that is not what the hardware has.
        orders: By which other orders of ops may hold more than the one there is; as many as memory allows if not said.
    """

    memory: int | None = None
    orders: int | None = None


ALL_THERE_IS = Room()


class ExplicitProgram:
    """An explicit program on its way to a better one. Bodies of manual computations stay as they are.

    Attributes:
        graph: The program; what its blocks hold is up to date once the rewriter has written.
        rewriter: Changes it.
        exact: Whether sums of floating-point numbers keep their order: see `README.md`.
        memory: The bytes that a device may hold at most, where that is not what the hardware has.
        order_bytes: Those by which other orders of ops may still hold more than there was; who makes one takes off its.
        hardware: What time is saved on.
        improvements: What has been made better, in order.
        works: For each op of which that was asked, what it read then, and what a device does for it (`works_of`).
        prices: By their ids, for a signature and how values lie of which that was asked, seconds and queues, and these.
        alone: For each such op, what it read then, it as a task that needs nothing, and whether it keeps its order.
        rings: For each kind of product around a ring of which that was asked, the values outside, and what devices do.
        tasks: For each block of which that was asked, after how many changes, and its ops as tasks (`tasks_of`).
    """

    def __init__(
        self, graph: Graph, exact: bool = False, room: Room = ALL_THERE_IS, like: ExplicitProgram | None = None
    ) -> None:
        """Change a graph in place; another one that it was made from knows what things cost."""
        self.graph = graph
        self.exact = exact
        self.memory = room.memory
        self.order_bytes: float = math.inf if room.orders is None else room.orders
        self.hardware = current_hardware()
        self.rewriter = Rewriter(graph, graph.main.block)
        self.improvements: list[Improvement] = []
        self.works: dict[Op, tuple[tuple[int, ...], tuple[Work, ...]]] = {}
        self.prices: dict[tuple[int, ...], tuple[tuple[tuple[float, Queue], ...], object]] = (
            {} if like is None else like.prices
        )
        self.alone: dict[Op, tuple[tuple[int, ...], Task, bool]] = {}
        self.rings: dict[object, tuple[tuple[int, ...], tuple[Work, ...]]] = {} if like is None else like.rings
        self.tasks: dict[Block, tuple[int, Tasks]] = {}
        self._times = block_times(graph)
        open_blocks = _open(graph)
        self._blocks = {op: block for block in self._times if block in open_blocks for op in block.ops}
        self._holders = {region: op for op in self._blocks for region in op.regions}
        self._places: dict[Block | None, dict[Op, float]] = {}
        self._layouts: dict[int, TensorSharding | None] = {}
        self._bytes: dict[int, int] = {}
        self._costs: dict[Op, Cost] = {}
        self._steps: dict[Op, Step | None] = {}
        self._held: tuple[int, int] | None = None  # and after how many changes that was

    def type(self, value: int) -> TensorType:
        """The global type of a value."""
        return self.graph.types[value]

    def layout(self, value: int) -> TensorSharding | None:
        """How a value lies; `None` of what is not a tensor."""
        if value not in self._layouts:
            layout = self.graph.shardings[value]
            self._layouts[value] = layout.closed() if layout is not None and self.type(value).is_tensor else None
        return self._layouts[value]

    def forget_values(self, first: int) -> None:
        """Take away the values from a number on, which nothing reads."""
        del self.graph.types[first:], self.graph.shardings[first:]
        for known in (self._layouts, self._bytes):
            for value in [value for value in known if value >= first]:
                del known[value]

    def layouts(self, values: Sequence[int]) -> tuple[TensorSharding, ...] | None:
        """How values lie, where all of them are tensors."""
        layouts = tuple([layout for value in values if (layout := self.layout(value)) is not None])
        return layouts if len(layouts) == len(values) else None

    def step(self, op: Op) -> Step | None:
        """What a collective between ops does, whatever values it comes to read; `None` of other ops."""
        if op.signature.name not in COLLECTIVES:
            return None
        if op not in self._steps:
            layouts = self.layouts((*op.operands, *op.results))
            self._steps[op] = None if layouts is None else step_of(op.signature, *layouts)
        return self._steps[op]

    def maker(self, value: int) -> Op | None:
        """The op of which a value is a result."""
        return self.rewriter.maker(value)

    def readers(self, value: int) -> list[Op]:
        """The ops that read a value."""
        return list(self.rewriter.uses[value])

    # Where and how often

    def block_of(self, op: Op) -> Block | None:
        """The block of an op that may be changed; `None` of others."""
        return self._blocks.get(op)

    def times(self, op: Op) -> float:
        """How often an op runs that may be changed."""
        return self._times[self._blocks[op]]

    def times_inside(self, region: Block, op: Op) -> float:
        """How often a region of an op runs each time that the block does in which the op stands."""
        around = self._blocks.get(op)
        return self._times[region] / (self._times[around] if around is not None else 1.0)

    def place(self, op: Op) -> float:
        """A number that is greater than those of the ops before this one in its block."""
        block = self._blocks[op]
        places = self._places.get(block)
        if places is None:
            self.rewriter.write()
            places = self._places[block] = dict(zip(block.ops, map(float, range(len(block.ops))), strict=True))
        return places[op]

    def is_before(self, op: Op, other: Op) -> bool:
        """Whether what an op makes is there for another: it stands before it in its block, or in one around that."""
        mine = self._blocks.get(op)
        holder: Op | None = other
        while holder in self._blocks and self._blocks[holder] is not mine:
            holder = self._holders.get(self._blocks[holder])
        return mine is not None and holder in self._blocks and self.place(op) < self.place(holder)

    def came(self, op: Op, block: Block) -> None:
        """Know of an op that was put into a block or moved there."""
        self._leave(op)
        self._blocks[op] = block
        places = self._places.get(block)
        if places is not None:
            before, behind = self.rewriter.around(op)
            first = places[before] if before is not None else -1.0
            last = places[behind] if behind is not None else first + 2.0
            places[op] = (first + last) / 2
            if not first < places[op] < last:  # there is no number between them
                del self._places[block]

    def gone(self, op: Op) -> None:
        """Forget an op that was taken out."""
        self._leave(op)
        del self._blocks[op]

    def _leave(self, op: Op) -> None:
        self._places.get(self._blocks.get(op), {}).pop(op, None)

    def reorder(self, block: Block, ops: Sequence[Op], reason: str) -> None:
        """Let the ops of a block, but for its last, stand in another order."""
        self.rewriter.arrange(block, ops, reason)
        self._places.pop(block, None)

    def loop_around(self, op: Op) -> Op | None:
        """The loop in whose body an op stands, not in a block of that."""
        block = self._blocks.get(op)
        holder = self._holders.get(block) if block is not None else None
        return (
            holder if holder is not None and holder.name == "stablehlo.while" and holder.regions[1] is block else None
        )

    # What it costs

    @cached_property
    def spare_bytes(self) -> float:
        """Bytes that each device may hold beside what is set aside for the program: up to `memory`, or what the
        hardware has; where neither is known, as much as its arguments. Who takes of it takes it off.
        """
        self.rewriter.write()
        use = memory(localize(self.graph))
        most = self.hardware.memory_bytes if self.memory is None else self.memory
        return use.arguments if most is None else most - use.allocated

    def held(self) -> int:
        """The most bytes that each device holds at once of the program as it is now, in its order."""
        changes = len(self.rewriter.changes)
        if self._held is None or self._held[0] != changes:
            self.rewriter.write()
            self._held = changes, most_held(localize(self.graph))
        return self._held[1]

    def local_bytes(self, value: int) -> int:
        """The bytes of a value on each device; of what is no tensor none."""
        bytes = self._bytes.get(value)
        if bytes is None:
            type, layout = self.type(value), self.layout(value)
            bytes = 0 if layout is None else local_bytes(type.dims, type.bytes // max(1, type.elements), layout)
            self._bytes[value] = bytes
        return bytes

    def cost(self, op: Op) -> Cost:
        """What an op costs each device each time it runs; nothing where that is not known.

        Whatever values an op comes to read, they lie as those before did.
        """
        cost = self._costs.get(op)
        if cost is None:
            cost = self._costs[op] = self._cost_of(op)
        return cost

    def _cost_of(self, op: Op) -> Cost:
        layouts = self.layouts((*op.operands, *op.results))
        step = self.step(op)
        if layouts is None or op.regions:
            return Cost()
        if step is not None:
            return steps_cost(self.type(op.operands[0]), layouts[0], (step,), self.hardware.links)
        if op.name.startswith("sdy.") or any(layout.partial and not layout.mesh.axes for layout in layouts):
            return Cost()
        count = len(op.operands)
        return computed_cost(op.signature, layouts[:count], layouts[count:], self.hardware)

    def seconds(self, cost: Cost) -> float:
        """The price of a cost."""
        return price(cost, self.hardware)

    def note(self, by: str, op: Op, reason: str, bytes_saved: float, seconds_saved: float) -> None:
        """Add to the log."""
        location = str(self.graph.locations[op.location])
        self.improvements.append(Improvement(by, op.signature.label, location, reason, bytes_saved, seconds_saved))


def is_pure(op: Op) -> bool:
    """Whether an op does nothing but compute its results, of its operands alone."""
    return not (op.regions or facts_of(op.name).effects or op.name in _HOLDS_MORE) or op.name in COLLECTIVES


def plan_between(type: TensorType, before: TensorSharding, after: TensorSharding) -> tuple[Step, ...] | None:
    """The cheapest chain of steps between two layouts; `None` where there is none."""
    if not type.elements or not same_grid(before.mesh, after.mesh):
        return None
    if not set(after.partial) <= set(before.partial):
        return None
    try:
        return plan(type.dims, type.bytes // type.elements, before, after, dtype=type.dtype).steps
    except ShardingError:
        return None


def _open(graph: Graph) -> set[Block]:
    """The blocks that do not stand in the body of a manual computation."""
    blocks = {graph.main.block}
    for op in graph.main.block.walk(opaque=(MANUAL,)):
        if op.name != MANUAL:
            blocks.update(op.regions)
    return blocks
