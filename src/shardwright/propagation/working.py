"""The program while it is being propagated: a private copy that import steps rewrite, with its def-use lists.

Propagation is a greedy worklist, and where shardings conflict its outcome depends on the order in which the users of a
value are looked at. MLIR keeps a value's uses in a list with the newest use in front; `uses` keeps the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DATA_FLOW_OPS
from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding

__all__ = [
    "CONSTRAINT",
    "EDGE",
    "GROUP",
    "MANUAL",
    "NAMED",
    "DataFlowEdge",
    "Working",
    "place_after",
    "special_ops",
]

CONSTRAINT = "sdy.sharding_constraint"
GROUP = "sdy.sharding_group"
EDGE = "sdy.data_flow_edge"
MANUAL = "sdy.manual_computation"
NAMED = "sdy.named_computation"

_SPECIAL = DATA_FLOW_OPS | {CONSTRAINT, GROUP, EDGE}


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
    """

    op: Op
    parent: Op
    index: int
    targets: tuple[int, ...] = ()
    boundary: TensorSharding | None = None
    inward: bool = False

    @property
    def owner(self) -> int:
        """The value that the edge follows: a result of `parent`, or an argument of its body."""
        return self.op.operands[0]

    @property
    def readers(self) -> tuple[Op, ...]:
        """The ops whose operand number `index` flows in: the parent, or what ends its regions."""
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
        uses: For each value, the ops that read it, newest first, an op once per operand; made by `build_uses`.
        edges: The data-flow edges, by the value that holds their sharding.
        holder: Value → the edge value that holds its sharding, for owners and targets of edges.
        groups: Sharding groups: lists of values.
    """

    block: Block
    types: list[TensorType]
    shardings: list[TensorSharding | None]
    special: dict[str, list[Op]]
    uses: list[list[Op]] = field(default_factory=list)
    edges: dict[int, DataFlowEdge] = field(default_factory=dict)
    holder: dict[int, int] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)

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
        if self.uses:
            self.uses.append([])
        return len(self.types) - 1

    def build_uses(self, parsed: bool = False) -> None:
        """Make the use lists: in program order, the last use in front, as Shardy's constant splitter leaves them.

        As a `parsed` module has them, what an op's regions read comes before what it reads itself.
        """
        self.uses = [[] for _ in self.types]
        _add_uses(self.block, self.uses, parsed)
        for users in self.uses:
            users.reverse()

    def holder_of(self, value: int) -> int:
        """The value that holds the sharding of `value`: itself, or a data-flow edge's."""
        return self.holder.get(value, value)

    def replace_uses(self, old: int, new: int, which: list[Op]) -> None:
        """Let the ops `which` read `new` instead of `old`, one after the other as MLIR would."""
        chosen = set(which)
        moved = [op for op in self.uses[old] if op in chosen]
        self.uses[old] = [op for op in self.uses[old] if op not in chosen]
        for op in moved:
            self.uses[new].insert(0, op)
            op.operands = tuple([new if value == old else value for value in op.operands])


def special_ops(block: Block) -> dict[str, list[Op]]:
    """The ops of a block that import steps care about, by name, those in the regions of an op before it."""
    by_name: dict[str, list[Op]] = {}
    for op in block.walk(regions_first=True):
        if op.signature.name in _SPECIAL:
            by_name.setdefault(op.signature.name, []).append(op)
    return by_name


def place_after(block: Block, value: int) -> tuple[Block, int]:
    """Where in `block`, or in a region of it, to insert an op that reads `value` first: the block and the index."""
    place = _find(block, value)
    assert place is not None, "every value has a place"
    return place


def _find(block: Block, value: int) -> tuple[Block, int] | None:
    if value in block.arguments:
        return block, 0
    for index, op in enumerate(block.ops):
        if value in op.results:
            return block, index + 1
        for region in op.regions:
            place = _find(region, value)
            if place is not None:
                return place
    return None


def _copy(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        regions = op.regions
        if regions:
            regions = tuple([_copy(region) for region in regions])
        ops.append(Op(op.signature, op.operands, op.results, regions, op.location))
    return Block(block.arguments, ops)


def _add_uses(block: Block, uses: list[list[Op]], regions_first: bool) -> None:
    for op in block.walk(regions_first):
        for value in op.operands:
            uses[value].append(op)
