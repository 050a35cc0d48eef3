"""Sharding constraints, applied to what they constrain before propagation starts.

A constraint with no open dimension says how its input should lie, so the input takes its sharding, unless it has one
or another constraint says otherwise; the in-shardings of manual computations count as constraints. Where the input
crosses a region's boundary, its other users read the constraint instead, so that not all that is tied to it is
constrained. A chain of constraints makes later users of its input read the end of the chain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.propagation.working import CONSTRAINT, EDGE, MANUAL, Working, place_after
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["CONSTRAINING", "Constraining", "apply_constraints"]

CONSTRAINING = frozenset({CONSTRAINT, MANUAL})


class Constraining(ABC):
    """Applies constraints, whatever its ops and values are: those of a graph, or handles in the pass of that name."""

    def run(self, ops: Iterable[Any]) -> None:
        """Apply the constraints and the in-shardings of manual computations among `ops`, in that order."""
        for op in ops:
            if op.name not in CONSTRAINING:
                continue
            if op.name == CONSTRAINT:
                tail = self._tail(op)
                if tail is not None:
                    self.read_behind(tail, op)
            for index in range(len(op.operands)):
                self._apply(op, index)

    def _apply(self, op: Any, index: int) -> None:
        value = op.operands[index]  # a constraint made for an operand before may have taken its place
        sharding = self.constrained_to(op, index)
        if sharding is None or not self._should_apply(value, sharding):
            return
        if not self.is_tied(value):
            self.say(value, sharding, op)
            return
        if sharding.partial:
            # How it is split stays open to propagation, that it awaits reduction does not.
            dims = (DimSharding((), True),) * sharding.rank
            self.say_on_edge(value, TensorSharding(sharding.mesh, dims, partial=sharding.partial))
        self.read_constraint(value, sharding, op)

    def _should_apply(self, value: Any, sharding: TensorSharding) -> bool:
        return (
            self.can_say(value)
            and self.sharding_of(value) is None
            and not any(dim.open for dim in sharding.dims)
            and not any(self._says_otherwise(user, value, sharding) for user in self.users(value))
        )

    def _says_otherwise(self, user: Any, value: Any, sharding: TensorSharding) -> bool:
        return user.name in CONSTRAINING and any(
            operand == value and self.constrained_to(user, index) != sharding
            for index, operand in enumerate(user.operands)
        )

    def _tail(self, head: Any) -> Any:
        """The end of a chain of at least two constraints that begins with `head`, if it captures later uses."""
        value = head.operands[0]
        maker = self.maker(value)
        if maker is not None and maker.name == CONSTRAINT:
            return None
        if self.sharding_of(value) is not None or any(user != head for user in self._constraining(value)):
            return None
        tail = head
        while len(users := self.users(tail.results[0])) == 1 and users[0].name == CONSTRAINT:
            tail = users[0]
        return None if tail == head or self._constraining(tail.results[0]) else tail

    def _constraining(self, value: Any) -> list[Any]:
        return [user for user in self.users(value) if user.name in CONSTRAINING]

    def can_say(self, value: Any) -> bool:
        """Whether a sharding can be attached to a value."""
        return True

    @abstractmethod
    def sharding_of(self, value: Any) -> TensorSharding | None:
        """The sharding of a value, or of the edge that holds it."""

    @abstractmethod
    def constrained_to(self, op: Any, index: int) -> TensorSharding | None:
        """How a constraint or a manual computation wants an operand to lie."""

    @abstractmethod
    def users(self, value: Any) -> Sequence[Any]:
        """The ops that read a value, an op once per operand."""

    @abstractmethod
    def maker(self, value: Any) -> Any:
        """The op whose result a value is, or `None`."""

    @abstractmethod
    def is_tied(self, value: Any) -> bool:
        """Whether an edge makes a value, or holds its sharding."""

    @abstractmethod
    def say(self, value: Any, sharding: TensorSharding, op: Any) -> None:
        """Attach what `op` wants to a value; other results of the op that makes it are open from now on."""

    @abstractmethod
    def say_on_edge(self, value: Any, sharding: TensorSharding) -> None:
        """Attach a sharding to the edge that a value is tied by."""

    @abstractmethod
    def read_constraint(self, value: Any, sharding: TensorSharding, op: Any) -> None:
        """Put a constraint right behind a value, `op` itself if it is one, for all other users to read instead."""

    @abstractmethod
    def read_behind(self, tail: Any, head: Any) -> None:
        """Let what reads the input of `head` after `tail`, in its block, read the result of that; but no return."""


def apply_constraints(working: Working) -> None:
    """Apply all constraints, and the in-shardings of manual computations, in program order."""
    if not CONSTRAINING.isdisjoint(working.special):
        walked = working.block.walk(regions_first=True)
        _InWorking(working).run([op for op in walked if op.signature.name in CONSTRAINING])


class _InWorking(Constraining):
    def __init__(self, working: Working) -> None:
        self.working = working
        self.producers: dict[int, Op] = {}
        self.blocks: dict[Op, Block] = {}
        for block in working.block.blocks():
            for op in block.ops:
                self.blocks[op] = block
                for result in op.results:
                    self.producers[result] = op
        self.entering = {
            (edge.parent, edge.parent.regions[0].arguments.index(edge.owner)): edge.boundary
            for edge in working.edges.values()
            if edge.inward
        }

    def sharding_of(self, value: int) -> TensorSharding | None:
        return self.working.shardings[self.working.holder_of(value)]

    def constrained_to(self, op: Op, index: int) -> TensorSharding | None:
        return self.working.shardings[op.results[0]] if op.name == CONSTRAINT else self.entering.get((op, index))

    def users(self, value: int) -> Sequence[Op]:
        return self.working.uses[value]

    def maker(self, value: int) -> Op | None:
        return self.producers.get(value)

    def is_tied(self, value: int) -> bool:
        maker = self.maker(value)
        return value in self.working.holder or (maker is not None and maker.name == EDGE)

    def say(self, value: int, sharding: TensorSharding, op: Op) -> None:
        shardings, types = self.working.shardings, self.working.types
        maker = self.maker(value)
        for result in maker.results if maker is not None else ():
            if shardings[result] is None and types[result].is_tensor:
                shardings[result] = TensorSharding(sharding.mesh, (DimSharding((), True),) * types[result].rank)
        shardings[value] = sharding

    def say_on_edge(self, value: int, sharding: TensorSharding) -> None:
        self.working.shardings[self.working.holder_of(value)] = sharding

    def read_constraint(self, value: int, sharding: TensorSharding, op: Op) -> None:
        if op.name == CONSTRAINT:
            self.blocks[op].ops.remove(op)
        else:
            type = self.working.types[value]
            result = self.working.new_value(type, sharding)
            op = Op(Signature(CONSTRAINT, (), (type,), (type,)), (value,), (result,), (), op.location)
            self.working.uses[value].insert(0, op)
            self.producers[result] = op
        block, index = place_after(self.working.block, value)
        block.ops.insert(index, op)
        self.blocks[op] = block
        others = [user for user in self.working.uses[value] if user is not op]
        self.working.replace_uses(value, op.results[0], others)

    def read_behind(self, tail: Op, head: Op) -> None:
        (value,), ops = head.operands, self.blocks[tail].ops
        later = set(ops[ops.index(tail) + 1 :])
        chosen = [
            user
            for user in self.working.uses[value]
            if user is not head and user.name != "func.return" and user in later
        ]
        self.working.replace_uses(value, tail.results[0], chosen)
