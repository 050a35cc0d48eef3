"""Changing a program in place: ops put in, moved, replaced, erased and cloned; who reads what is known throughout.

    with Rewriter(graph, graph.main.block) as rewriter:
        for op in [op for op in graph.walk() if op.name == "sdy.reshard"]:
            rewriter.replace(op, op.operands, "on one device a reshard is its operand")

What MLIR's `RewriterBase` does, on numbers. Every change costs as much as the op has operands and readers, whatever the
size of the program: blocks that change are linked lists until `write`, which the end of `with` calls. Until then
`block.ops` of these is what it was: within an op see `written`, behind an op `following`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shardwright.ir.copying import cloned
from shardwright.ir.graph import Block, Op
from shardwright.ir.locations import LocationTable
from shardwright.ir.rewrite.order import Order
from shardwright.ir.rewrite.uses import Uses
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding

__all__ = ["GraphChange", "Point", "Rewriter", "ValueTable"]


class ValueTable(Protocol):
    """What holds the values of a program: a graph, or one on its way."""

    types: list[TensorType]
    shardings: list[TensorSharding | None]

    def new_value(self, type: TensorType, sharding: TensorSharding | None = None) -> int:
        """A fresh value."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where ops are put in, one behind the other: before an op of a block, or at its end where that is `None`."""

    block: Block
    before: Op | None


class GraphChange(NamedTuple):
    """One change of a program.

    Attributes:
        what: `inserted`, `moved`, `given other operands`, `replaced` or `erased`.
        op: The op that this was done to.
        reason: Why, as the one who did it says.
    """

    what: str
    op: Op
    reason: str

    def text(self, locations: LocationTable) -> str:
        """`mlp.mlir:4: stablehlo.add is erased: nobody reads it`."""
        return f"{locations[self.op.location]}: {self.op.signature.label} is {self.what}: {self.reason}"


def _to_nobody(op: Op) -> None:
    """Tell nobody of an op."""


class Rewriter:
    """Changes a program.

    Attributes:
        block: The block of the program, with all that its ops hold.
        uses: Who reads each value, kept up to date.
        changes: What has been changed, in order.
        tell: Is told of every op that a change gives a reason to look at: one put in, moved or given other operands, or
            one of whose results something is read no more.
    """

    def __init__(self, values: ValueTable, block: Block, uses: Uses | None = None) -> None:
        """Change `block`, whose values `values` holds; `uses` are its uses where somebody knows them."""
        self.block = block
        self.uses = Uses(block, len(values.types)) if uses is None else uses
        self.changes: list[GraphChange] = []
        self.tell: Callable[[Op], None] = _to_nobody
        self._values = values
        self._known_blocks: dict[Op, Block] | None = None  # of ops; both are found when first asked for
        self._orders: dict[Block, Order] = {}
        self._known_makers: dict[int, Op | Block] | None = None

    def __enter__(self) -> Rewriter:
        """This rewriter."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Write the changes."""
        self.write()

    def write(self) -> None:
        """Let all blocks that were changed hold their ops in order."""
        for block, order in self._orders.items():
            block.ops = list(order)
        self._orders.clear()

    def written(self, op: Op) -> Op:
        """The op itself, once the blocks within its regions hold their ops in order."""
        for region in op.regions:
            order = self._orders.pop(region, None)
            if order is not None:
                region.ops = list(order)
            for inner in region.ops:
                self.written(inner)
        return op

    # Where things stand

    def __contains__(self, op: Op) -> bool:
        """Whether an op is in the program."""
        return op in self._block_of

    def maker(self, value: int) -> Op | None:
        """The op whose result a value is; `None` for an argument of a block, and once that op has been taken out."""
        maker = self._makers.get(value)
        return maker if isinstance(maker, Op) else None

    def following(self, op: Op) -> Iterator[Op]:
        """The ops behind one in its block."""
        order = self._order(self._block_of[op])
        next = order.after(op)
        while next is not None:
            yield next
            next = order.after(next)

    def around(self, op: Op) -> tuple[Op | None, Op | None]:
        """The ops just before one and just behind it in its block, where there are any."""
        order = self._order(self._block_of[op])
        return order.before(op), order.after(op)

    def before(self, op: Op) -> Point:
        """Just before an op."""
        return Point(self._block_of[op], op)

    def after(self, op: Op) -> Point:
        """Just behind an op."""
        block = self._block_of[op]
        return Point(block, self._order(block).after(op))

    def start(self, block: Block) -> Point:
        """Before all ops of a block."""
        return Point(block, self._order(block).after(None))

    def end(self, block: Block) -> Point:
        """Before the terminator of a block."""
        return Point(block, self._order(block).last)

    def behind(self, value: int) -> Point:
        """Where a value has just come to be: behind the op that makes it, or at the start of the block it enters."""
        maker = self._makers[value]
        return self.start(maker) if isinstance(maker, Block) else self.after(maker)

    # Changes

    def insert(self, op: Op, point: Point, reason: str) -> None:
        """Put in an op that is not in the program, with all that its regions hold."""
        self._put(op, point)
        inside = list(op.walk()) if op.regions else (op,)
        for inner in inside:
            self.uses.add(inner)
        for region in op.regions:
            for block in region.blocks():
                self._block_of.update(dict.fromkeys(block.ops, block))
        if self._known_makers is not None:
            _add_makers(self._known_makers, inside)
        self._note("inserted", op, reason)

    def create(
        self,
        signature: Signature,
        operands: Sequence[int],
        point: Point,
        reason: str,
        *,
        shardings: Sequence[TensorSharding | None] = (),
        regions: tuple[Block, ...] = (),
        location: int = 0,
    ) -> Op:
        """Put in a new op whose results are fresh values, with shardings where given."""
        known = [*shardings, *[None] * (len(signature.results) - len(shardings))]
        results = map(self._values.new_value, signature.results, known)
        op = Op(signature, tuple(operands), tuple(results), regions, location)
        self.insert(op, point, reason)
        return op

    def clone(self, op: Op, point: Point, reason: str, values: dict[int, int] | None = None) -> Op:
        """Put in an op like another, with all that its regions hold; what it makes are fresh values like the others.

        It reads `values[value]` where the other reads `value`, as far as that is there; what is made is added to it.
        """
        made = cloned(self.written(op), {} if values is None else values, self._like)
        self.insert(made, point, reason)
        return made

    def move(self, op: Op, point: Point, reason: str) -> None:
        """Bring an op to another place."""
        if point.before is not op:
            self._order(self._block_of[op]).take(op)
            self._put(op, point)
            self._note("moved", op, reason)

    def arrange(self, block: Block, ops: Sequence[Op], reason: str) -> None:
        """Let the ops of a block, but for its last, stand in another order.

        Raises:
            ValueError: they are not the ops of the block.
        """
        self.write()
        *before, last = block.ops
        alike = next(
            (place for place, pair in enumerate(zip(before, ops, strict=False)) if pair[0] is not pair[1]), len(ops)
        )
        if len(ops) != len(before) or set(ops) != set(before):
            raise ValueError("the ops of a block in another order are not its ops")
        block.ops = [*ops, last]
        for op in ops[alike:]:
            self._note("moved", op, reason)

    def set_operands(self, op: Op, operands: Sequence[int], reason: str) -> None:
        """Let an op read other values."""
        if tuple(operands) != op.operands:
            before = op.operands
            self.uses.remove(op)
            op.operands = tuple(operands)
            self.uses.add(op)
            self._note("given other operands", op, reason)
            self._tell_makers(before)

    def replace_uses(
        self, old: int, new: int, reason: str, *, by: Collection[Op] | None = None, but: Op | None = None
    ) -> None:
        """Let `new` be read in place of `old`: by all, or by some ops only, or by all but one."""
        for op in reversed(list(self.uses[old])):  # the newest first, as MLIR does
            if op is not but and (by is None or op in by):
                self.uses.replace(op, old, new)
                self._note("given other operands", op, reason)
        self._tell_makers((old,))

    def replace(self, op: Op, values: Sequence[int], reason: str) -> None:
        """Let other values be read in place of an op's results, and take it out of the program."""
        for result, value in zip(op.results, values, strict=True):
            self.replace_uses(result, value, reason)
        self._take_out(op, "replaced", reason)

    def erase(self, op: Op, reason: str) -> None:
        """Take an op out of the program, with all that its regions hold.

        Raises:
            RuntimeError: something reads its results; nothing has been changed.
        """
        self._take_out(op, "erased", reason)

    # What changes are made of

    def _take_out(self, op: Op, what: str, reason: str) -> None:
        for value in op.results:
            for reader in self.uses[value]:
                raise RuntimeError(f"{op.name} cannot be {what} while {reader.name} reads it")
        self._order(self._block_of[op]).take(op)
        gone = list(self.written(op).walk())
        for inner in gone:
            self.uses.remove(inner)
            del self._block_of[inner]
            if self._known_makers is not None:
                for value in inner.results:
                    del self._known_makers[value]
        self.changes.append(GraphChange(what, op, reason))
        for inner in gone:
            self._tell_makers(inner.operands)

    def _put(self, op: Op, point: Point) -> None:
        self._order(point.block).put(op, point.before)
        self._block_of[op] = point.block

    def _note(self, what: str, op: Op, reason: str) -> None:
        self.changes.append(GraphChange(what, op, reason))
        self.tell(op)

    def _tell_makers(self, values: Sequence[int]) -> None:
        if self.tell is not _to_nobody:
            for maker in filter(None, map(self.maker, values)):
                self.tell(maker)

    def _order(self, block: Block) -> Order:
        order = self._orders.get(block)
        if order is None:
            order = self._orders[block] = Order(block.ops)
        return order

    def _like(self, value: int) -> int:
        return self._values.new_value(self._values.types[value], self._values.shardings[value])

    @property
    def _block_of(self) -> dict[Op, Block]:
        if self._known_blocks is None:
            self._known_blocks = {op: inner for inner in self.block.blocks() for op in inner.ops}
        return self._known_blocks

    @property
    def _makers(self) -> dict[int, Op | Block]:
        if self._known_makers is None:
            self._known_makers = dict.fromkeys(self.block.arguments, self.block)
            # blocks hold their ops as long as nobody has asked in which block one is: all changes do
            _add_makers(self._known_makers, self._known_blocks or self.block.walk())
        return self._known_makers


def _add_makers(makers: dict[int, Op | Block], ops: Iterable[Op]) -> None:
    """Take up what each value comes from that `ops` make, or that enters their regions: an op or a block."""
    for op in ops:
        for value in op.results:
            makers[value] = op
        for region in op.regions:
            for value in region.arguments:
                makers[value] = region
