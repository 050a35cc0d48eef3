"""What a program says of its values and of their uses, as the mesh RFC tells the two apart.

A value's own sharding is `as_result`; an `sdy.sharding_constraint`, or the sharding of a result of `main`, is for
users. It is required where all dimensions are closed, else a hint; open dimensions that nothing splits say nothing.

Source: the mesh RFC on LLVM's forum, AnnotateOp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Block, Op
from shardwright.ir.locations import LocationTable
from shardwright.propagation.rfc.derivation import Place, Spoken, Statement
from shardwright.propagation.working import CONSTRAINT, Working
from shardwright.sharding import TensorSharding

__all__ = ["RESHARD", "Annotations"]

RESHARD = "sdy.reshard"

_Readers = dict[int, list[tuple[Op, int]]]
"""Value → the ops that read it, and as which operand."""


class Annotations:
    """What is said, noted while constraints are taken out of a program.

    Attributes:
        values: What is said of values.
        uses: What is said of uses: of an op's operand, by number.
    """

    def __init__(self, working: Working, results: Sequence[TensorSharding | None], locations: LocationTable) -> None:
        """Read the program, whose results have these shardings.

        Raises:
            ShardingError: two constraints that nobody reads require different shardings of one value.
        """
        self.values: dict[int, Statement] = {}
        self.uses: dict[tuple[Op, int], Statement] = {}
        self._shardings = working.shardings
        self._terminator = working.block.terminator
        self._locations = locations
        for value in working.block.arguments:
            self._say(value, working.shardings[value], "")
        for index, sharding in enumerate(results):
            if sharding is not None and _speaks(sharding):
                self.uses[self._terminator, index] = _statement((self._terminator, index), sharding, "")
        self._read(working.block)
        for block in working.block.blocks():
            block.ops = [op for op in block.ops if op.name != CONSTRAINT]

    def _read(self, block: Block) -> None:
        readers: _Readers = {}
        constraints: list[Op] = []
        for op in block.walk():
            for index, value in enumerate(op.operands):
                readers.setdefault(value, []).append((op, index))
            if op.name == CONSTRAINT:
                constraints.append(op)
            elif any(self._shardings[value] is not None for value in op.results):
                line = str(self._locations[op.location])
                for value in op.results:
                    self._say(value, self._shardings[value], line)
        unread: dict[int, Statement] = {}
        for op in sorted(constraints, key=self._speaks):  # those that say nothing are not in the way of others then
            self._constraint(op, readers, unread)

    def _speaks(self, constraint: Op) -> bool:
        sharding = self._shardings[constraint.results[0]]
        return sharding is not None and _speaks(sharding)

    def _say(self, value: int, sharding: TensorSharding | None, line: str, is_constraint: bool = False) -> None:
        if sharding is not None and _speaks(sharding):
            self.values[value] = _statement(value, sharding, line, is_constraint)

    def _constraint(self, op: Op, readers: _Readers, unread: dict[int, Statement]) -> None:
        """Note a constraint at the uses that it is for; what readers follow otherwise stays, as a reshard."""
        (value,), (result,) = op.operands, op.results
        sharding, read = self._shardings[result], readers.get(result, [])
        if sharding is not None and _speaks(sharding):
            line = str(self._locations[op.location])
            if not read:
                self._unread(value, _statement(value, sharding, line, is_constraint=True), readers, unread)
            uses = {reading: _statement(reading, sharding, line, is_constraint=True) for reading in read}
            stands = any(use.required and self._is_resharded(*reading, use) for reading, use in uses.items())
            for reading, use in uses.items():
                self.uses.setdefault(reading, use)
            if stands:
                op.signature = replace(op.signature, name=RESHARD)
                self._say(result, sharding, line, is_constraint=True)
                self.uses[op, 0] = _statement((op, 0), sharding, line, is_constraint=True)
                return
        for reader, _ in read:
            reader.operands = tuple([value if one == result else one for one in reader.operands])
        readers[value] += read

    def _is_resharded(self, reader: Op, index: int, use: Statement) -> bool:
        """Whether what reads a constraint wants something else at once."""
        if reader.name in (CONSTRAINT, RESHARD):
            sharding = self._shardings[reader.results[0]]
            return sharding is not None and _speaks(sharding) and sharding.closed() != use.sharding
        returned = self.uses.get((reader, index)) if reader is self._terminator else None
        return returned is not None and returned.sharding != use.sharding

    def _unread(self, value: int, use: Statement, readers: _Readers, unread: dict[int, Statement]) -> None:
        """A constraint that nobody reads is said of the value, where others read that and it has no own sharding."""
        if all(reader.name == CONSTRAINT and reader.results[0] not in readers for reader, _ in readers[value]):
            return
        before = unread.setdefault(value, use)
        if before.required and use.required and before.sharding != use.sharding:
            raise ShardingError(
                f"a value is required to be {before.sharding!r} and {use.sharding!r}",
                op=CONSTRAINT,
                location=use.line,
                cause=f"the first is at {before.line}; nobody reads either, so both are of the value itself",
                remedy="take one of the two away, or let the op that it is for read its result",
            )
        self.values.setdefault(value, use)


def _statement(place: Place, sharding: TensorSharding, line: str, is_constraint: bool = False) -> Statement:
    return Statement(sharding.closed(), Spoken(place, sharding, is_constraint), _is_required(sharding), line)


def _is_required(sharding: TensorSharding) -> bool:
    return not any(dim.open for dim in sharding.dims)


def _speaks(sharding: TensorSharding) -> bool:
    return _is_required(sharding) or bool(sharding.used_axes or sharding.partial)
