"""The program while it is being propagated: a private copy that import steps rewrite, with its uses.

Propagation is a greedy worklist, and where shardings conflict its outcome depends on the order in which the users of a
value are looked at. MLIR keeps a value's uses in a list with the newest use in front; so has it who reads `uses` from
its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DATA_FLOW_OPS, STEPS
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.rewrite.uses import Uses
from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding

__all__ = [
    "CONSTRAINT",
    "EDGE",
    "FUNCTION_EDGE",
    "GROUP",
    "NAMED",
    "CalledFunction",
    "DataFlowEdge",
    "Readers",
    "Working",
    "special_ops",
]

Readers = Mapping[int, Sequence[tuple[int, int]]]
"""For a value, the ops that read it by their places among all, each with the number of its operand, newest last."""

CONSTRAINT = "sdy.sharding_constraint"
GROUP = "sdy.sharding_group"
EDGE = "sdy.data_flow_edge"
FUNCTION_EDGE = "sdy.func_data_flow_edge"
NAMED = "sdy.named_computation"

_SPECIAL = DATA_FLOW_OPS | STEPS.keys() | {CONSTRAINT, GROUP, EDGE, FUNCTION_EDGE}


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """One of the functions that stand behind one another in a block, of those that others call.

    Attributes:
        symbol: What calls call it, as MLIR prints it: `@f`.
        arguments: Its arguments; the `func.return` that it ends with stands in the block in the order of functions.
    """

    symbol: str
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DataFlowEdge:
    """Where data flows across the boundary of a region: all targets of an edge have one sharding.

    Attributes:
        op: The op that stands for the edge in the program; its operand is the owner, its result the edge's value.
        parent: The op whose edge it is.
        index: Which of the parent's results, or of its body's arguments, owns it.
        targets: Values that they flow to, other than the owner (arguments of a loop).
        boundary: For a manual computation, the sharding at its boundary, manual axes included.
        inward: Whether the edge of a manual computation leads into its body.
        between: Of an edge between a function and its calls, the ops whose operand number `index` flows in: the calls,
            or what ends the function. Its parent is the call, or the edge itself where the function's argument owns it.
    """

    op: Op
    parent: Op
    index: int
    targets: tuple[int, ...] = ()
    boundary: TensorSharding | None = None
    inward: bool = False
    between: tuple[Op, ...] = ()

    @property
    def owner(self) -> int:
        """The value that the edge follows: a result of `parent`, or an argument of its body."""
        return self.op.operands[0]

    @property
    def readers(self) -> tuple[Op, ...]:
        """The ops whose operand number `index` flows in: the parent, or what ends its regions."""
        if self.between:
            return self.between
        parent = self.parent
        name = parent.signature.name
        if self.inward or name == "stablehlo.optimization_barrier":
            return (parent,)
        if name == "stablehlo.while":
            return parent, parent.regions[1].terminator
        return tuple([region.terminator for region in parent.regions])

    @property
    def sources(self) -> tuple[int, ...]:
        """The values that flow in."""
        return tuple([reader.operands[self.index] for reader in self.readers])

    @property
    def value(self) -> int:
        """The value that holds the sharding of the owner and of all targets."""
        return self.op.results[0]


@dataclass(slots=True)
class Working:
    """A program being rewritten.

    Attributes:
        block: The block of `main`.
        types: Type of each value.
        shardings: Sharding of each value.
        special: Ops that import steps care about, by name, in program order.
        uses: For each value, the ops that read it, newest last; made by `build_uses`.
        edges: The data-flow edges, by the value that holds their sharding.
        holder: Value → the edge value that holds its sharding, for owners and targets of edges.
        groups: Sharding groups: lists of values.
        starts: Where several functions stand behind one another, the op with which that of an argument begins.
        operand_orders: As which operands an op reads a value, the newest use first, where that is known.
    """

    block: Block
    types: list[TensorType]
    shardings: list[TensorSharding | None]
    special: dict[str, list[Op]]
    uses: Uses = field(default_factory=lambda: Uses(Block((), []), 0))
    edges: dict[int, DataFlowEdge] = field(default_factory=dict)
    holder: dict[int, int] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)
    starts: dict[int, Op] = field(default_factory=dict)
    operand_orders: dict[tuple[Op, int], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Working:
        """A copy of `graph` that may be rewritten."""
        block = _copy(graph.main.block)
        return cls(block, list(graph.types), list(graph.shardings), special_ops(block))

    @classmethod
    def empty(cls) -> Working:
        """A program of nothing."""
        return cls(Block((), []), [], [], {})

    def new_value(self, type: TensorType, sharding: TensorSharding | None = None) -> int:
        """A fresh value."""
        self.types.append(type)
        self.shardings.append(sharding)
        return len(self.types) - 1

    def build_uses(self, readers: Readers | None = None) -> None:
        """Find the uses, in program order, as Shardy's constant splitter leaves them.

        With `readers` they are as in a module that was parsed, where what an op's regions read comes before what it
        reads itself; but those of the values given are as these have them.
        """
        self.uses = Uses(self.block, len(self.types), regions_first=readers is not None)
        ops = self.block.walk() if readers else []
        for value, listed in (readers or {}).items():
            newest = dict.fromkeys(ops[place] for place, _ in reversed(listed))
            times = Counter(place for place, _ in listed)
            counts = {ops[place]: count for place, count in times.items()}
            self.uses.readers[value] = {op: counts[op] for op in reversed(newest)}
            for place, number in listed:
                self.operand_orders.setdefault((ops[place], value), []).insert(0, number)

    def rewriter(self) -> Rewriter:
        """What changes the program, and `uses` with it."""
        return Rewriter(self, self.block, self.uses)

    def holder_of(self, value: int) -> int:
        """The value that holds the sharding of `value`: itself, or a data-flow edge's."""
        return self.holder.get(value, value)


def special_ops(block: Block) -> dict[str, list[Op]]:
    """The ops of a block that import steps care about, by name, those in the regions of an op before it."""
    by_name: dict[str, list[Op]] = {}
    for op in block.walk(regions_first=True):
        if op.signature.name in _SPECIAL:
            by_name.setdefault(op.signature.name, []).append(op)
    return by_name


def _copy(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        regions = op.regions
        if regions:
            regions = tuple([_copy(region) for region in regions])
        ops.append(Op(op.signature, op.operands, op.results, regions, op.location))
    return Block(block.arguments, ops)
