"""What single ops become of programs that are partitioned again and again: explicit ops, and those of one device.

A version of a value, known by its layout, has one number in all of these programs. So what is decided on an op alike is
written alike, once, and reads what others make whatever these were decided to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import COLLECTIVES, LAYOUTS
from shardwright.partition.decisions import Computed, Decision, Layout, PassedOn
from shardwright.partition.localize.pieces import LocalOps, LocalPieces
from shardwright.partition.write import written
from shardwright.stage import Stage

__all__ = ["Piece", "Pieces"]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What becomes of an op.

    Attributes:
        explicit: Its explicit ops: what is made for it, itself, and what is made of it.
        local: For each of these, the ops of one device.
        reads: The values that the explicit ops read.
        sent: The results of those that are collectives between ops: somebody has to read them.
    """

    explicit: tuple[Op, ...]
    local: tuple[LocalOps, ...]
    reads: tuple[int, ...]
    sent: tuple[int, ...]


class Pieces:
    """Pieces of explicit programs, and the values in them.

    Attributes:
        explicit: Types and shardings of the values of explicit ops. It has no ops.
        locals: What writes for one device.
    """

    def __init__(self, graph: Graph) -> None:
        """Nothing written yet of a propagated graph."""
        self.source = graph
        self.explicit = graph.skeleton(Stage.EXPLICIT)
        self.locals = LocalPieces(self.explicit)
        self._numbers: dict[int, dict[Layout, int]] = {}

    def number(self, value: int, layout: Layout) -> int:
        """The number of a version."""
        versions = self._numbers.setdefault(value, {})
        number = versions.get(layout)
        if number is None:
            number = versions[layout] = self.explicit.new_value(self.source.types[value], layout)
            self.locals.grow()
        return number

    def piece(
        self, op: Op, decision: Decision, reads: Mapping[int, Iterable[Layout]], makers: Mapping[int, Op]
    ) -> Piece:
        """What an op becomes as decided.

        Arguments:
            op: The op.
            decision: What becomes of it.
            reads: The values that it reads, with their versions before it.
            makers: The ops of what it reads by other names, or is made where it is read.

        Raises:
            ShardingError: it cannot be computed in these parts.
            CannotGoOn: it is not known by itself what it becomes.
        """
        if isinstance(decision, Computed) and not decision.before and not decision.after:
            return self._alone(op, decision, makers)
        versions = {value: {one: self.number(value, one) for one in layouts} for value, layouts in reads.items()}
        for value in makers:
            versions[value] = versions[_root(value, makers)]
        made = written(self.source, self.explicit, op, decision, versions, makers)
        own = () if isinstance(decision, PassedOn) else op.results
        others = self._others({value: versions[value] for value in (*reads, *own)})
        explicit = tuple([_renamed(one, others) for one in made])
        self.locals.grow()
        local = tuple(map(self.locals.of, explicit))
        read = tuple([value for one in explicit for value in one.operands])
        sent = tuple([one.results[0] for one in explicit if one.signature.name in COLLECTIVES])
        return Piece(explicit, local, read, sent)

    def _alone(self, op: Op, decision: Computed, makers: Mapping[int, Op]) -> Piece:
        """An op for which nothing is made, and of whose results nothing is."""
        roots = [value if value not in makers else _root(value, makers) for value in op.operands]
        operands = tuple(map(self.number, roots, decision.operands))
        results = tuple(map(self.number, op.results, decision.results))
        explicit = Op(op.signature, operands, results, (), op.location)
        return Piece((explicit,), (self.locals.of(explicit),), operands, ())

    def _others(self, versions: Mapping[int, Mapping[Layout, int]]) -> dict[int, int]:
        """The numbers of versions that have others already, with these."""
        others: dict[int, int] = {}
        for value, layouts in versions.items():
            known = self._numbers.setdefault(value, {})
            for layout, number in layouts.items():
                first = known.setdefault(layout, number)
                if first != number:
                    others[number] = first
        return others


def _root(value: int, makers: Mapping[int, Op]) -> int:
    """The value that a value is by another name."""
    while value in makers and makers[value].signature.name in LAYOUTS:
        (value,) = makers[value].operands
    return value


def _renamed(op: Op, others: dict[int, int]) -> Op:
    if not others:
        return op
    operands, results = (tuple([others.get(value, value) for value in some]) for some in (op.operands, op.results))
    return Op(op.signature, operands, results, (), op.location)
