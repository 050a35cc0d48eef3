"""Sharding constraints, applied to what they constrain before propagation starts.

A constraint with no open dimension says how its input should lie, so the input takes its sharding, unless it has one
or another constraint says otherwise. Where the input crosses a region's boundary, its other users read the constraint
instead, so that not all that is tied to it is constrained. A chain of constraints makes later users of its input read
the end of the chain.
"""

from __future__ import annotations

from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.propagation.working import CONSTRAINT, EDGE, MANUAL, Working, place_after
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["apply_constraints"]


def apply_constraints(working: Working) -> None:
    """Apply all constraints, and the in-shardings of manual computations, in program order."""
    if CONSTRAINT in working.special or MANUAL in working.special:
        _Applier(working).walk(working.block)


class _Applier:
    def __init__(self, working: Working) -> None:
        self.working = working
        self.producers: dict[int, Op] = {}
        self.blocks: dict[Op, Block] = {}
        for block in working.block.blocks():
            for op in block.ops:
                self.blocks[op] = block
                self.producers.update(dict.fromkeys(op.results, op))
        self.entering = {
            (edge.parent, edge.parent.regions[0].arguments.index(edge.owner)): edge.boundary
            for edge in working.edges.values()
            if edge.inward
        }

    def walk(self, block: Block) -> None:
        for op in list(block.ops):
            for region in op.regions:
                self.walk(region)
            if op.signature.name == CONSTRAINT:
                self._constraint(op)
            elif op.signature.name == MANUAL:
                self._manual(op)

    def _constraint(self, head: Op) -> None:
        tail = self._tail(head)
        if tail is not None:
            self._capture_later_uses(head, tail)
        value = head.operands[0]
        sharding = self.working.shardings[head.results[0]]
        assert sharding is not None, "a constraint has a sharding"
        if not self._should_apply(value, sharding):
            return
        if self._is_tied(value):
            self._move_after(head, value)
            self._read_instead(value, head)
        else:
            self._say(value, sharding)

    def _manual(self, op: Op) -> None:
        for index in range(len(op.operands)):
            value = op.operands[index]  # a constraint made for an operand before may have taken its place
            sharding = self._in_sharding(op, index)
            if sharding is None or not self._should_apply(value, sharding):
                continue
            if not self._is_tied(value):
                self._say(value, sharding)
                continue
            type = self.working.types[value]
            result = self.working.new_value(type, sharding)
            constraint = Op(Signature(CONSTRAINT, (), (type,), (type,)), (value,), (result,), (), op.location)
            self.working.uses[value].insert(0, constraint)
            self.producers[result] = constraint
            self._insert_after(constraint, value)
            self._read_instead(value, constraint)

    def _say(self, value: int, sharding: TensorSharding) -> None:
        """Set a sharding. Where one result of an op has one, all have: the others are open from now on."""
        shardings = self.working.shardings
        producer = self.producers.get(value)
        for result in producer.results if producer is not None else ():
            type = self.working.types[result]
            if shardings[result] is None and type.is_tensor:
                shardings[result] = TensorSharding(sharding.mesh, (DimSharding((), True),) * type.rank)
        shardings[value] = sharding

    def _in_sharding(self, op: Op, index: int) -> TensorSharding | None:
        return self.entering.get((op, index))

    def _should_apply(self, value: int, sharding: TensorSharding) -> bool:
        if self.working.shardings[self.working.holder_of(value)] is not None:
            return False
        if any(dim.open for dim in sharding.dims):
            return False
        return not any(self._says_otherwise(user, value, sharding) for user in self.working.uses[value])

    def _says_otherwise(self, user: Op, value: int, sharding: TensorSharding) -> bool:
        if user.signature.name == CONSTRAINT:
            return self.working.shardings[user.results[0]] != sharding
        if user.signature.name == MANUAL:
            return any(
                operand == value and self._in_sharding(user, index) != sharding
                for index, operand in enumerate(user.operands)
            )
        return False

    def _is_tied(self, value: int) -> bool:
        producer = self.producers.get(value)
        return value in self.working.holder or (producer is not None and producer.signature.name == EDGE)

    def _tail(self, head: Op) -> Op | None:
        """The end of a chain of at least two constraints that begins with `head`, if it captures later uses."""
        value = head.operands[0]
        producer = self.producers.get(value)
        if producer is not None and producer.signature.name == CONSTRAINT:
            return None
        uses = self.working.uses
        if self.working.shardings[self.working.holder_of(value)] is not None:
            return None
        if any(user is not head and user.signature.name in (CONSTRAINT, MANUAL) for user in uses[value]):
            return None
        tail = head
        while len(uses[tail.results[0]]) == 1 and uses[tail.results[0]][0].signature.name == CONSTRAINT:
            tail = uses[tail.results[0]][0]
        if tail is head or any(user.signature.name in (CONSTRAINT, MANUAL) for user in uses[tail.results[0]]):
            return None
        return tail

    def _capture_later_uses(self, head: Op, tail: Op) -> None:
        value = head.operands[0]
        block = self.blocks[tail]
        later = set(block.ops[block.ops.index(tail) + 1 :])
        chosen = [
            user
            for user in self.working.uses[value]
            if user is not head and user.signature.name != "func.return" and user in later
        ]
        self.working.replace_uses(value, tail.results[0], chosen)

    def _read_instead(self, value: int, constraint: Op) -> None:
        sharding = self.working.shardings[constraint.results[0]]
        if sharding is not None and sharding.partial:
            # How it is split stays open to propagation, that it awaits reduction does not.
            dims = (DimSharding((), True),) * sharding.rank
            said = TensorSharding(sharding.mesh, dims, partial=sharding.partial)
            self.working.shardings[self.working.holder_of(value)] = said
        others = [user for user in self.working.uses[value] if user is not constraint]
        self.working.replace_uses(value, constraint.results[0], others)

    def _move_after(self, op: Op, value: int) -> None:
        self.blocks[op].ops.remove(op)
        self._insert_after(op, value)

    def _insert_after(self, op: Op, value: int) -> None:
        block, index = place_after(self.working.block, value)
        block.ops.insert(index, op)
        self.blocks[op] = block
