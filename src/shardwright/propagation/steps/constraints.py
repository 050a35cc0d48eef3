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

from shardwright.ir.graph import Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.signature import Signature
from shardwright.propagation.working import CONSTRAINT, EDGE, Working
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
        """The ops that read a value, the newest first; one that reads it twice may come twice."""

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
        ops = [op for op in working.block.walk(regions_first=True) if op.signature.name in CONSTRAINING]
        with working.rewriter() as rewriter:
            _InWorking(working, rewriter).run(ops)


class _InWorking(Constraining):
    def __init__(self, working: Working, rewriter: Rewriter) -> None:
        self.working = working
        self.rewriter = rewriter
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
        return list(reversed(self.rewriter.uses[value]))

    def maker(self, value: int) -> Op | None:
        return self.rewriter.maker(value)

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
        point = self.rewriter.behind(value)
        if op.name == CONSTRAINT:
            self.rewriter.move(op, point, "it constrains a value that is tied to others")
        else:
            type = self.working.types[value]
            signature = Signature(CONSTRAINT, (), (type,), (type,))
            reason = "a manual computation says how it takes a value that is tied to others"
            op = self.rewriter.create(signature, (value,), point, reason, shardings=(sharding,), location=op.location)
        self.rewriter.replace_uses(value, op.results[0], "the value is constrained", but=op)

    def read_behind(self, tail: Op, head: Op) -> None:
        reason = "it stands behind a chain of constraints of the value"
        later = {op for op in self.rewriter.following(tail) if op.name != "func.return"} - {head}
        self.rewriter.replace_uses(head.operands[0], tail.results[0], reason, by=later)
