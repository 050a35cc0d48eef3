"""Constants, split before propagation and merged after it.

Frontends share one `zeros` among hundreds of users. Propagated as one value it would carry the sharding of one user
to all others, though each could have its own copy for free. So every use of a constant expression, or of a broadcast
scalar, first gets its own copy; after propagation, copies that ended up alike become one again.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.propagation.working import GROUP, Working
from shardwright.rules.traits import is_constant, is_constant_preserving, is_scalar_expansion

__all__ = ["merge_constants", "split_constants"]

_CONSTANTS = frozenset({"stablehlo.constant", "sdy.constant"})

_PLAIN, _SOURCE, _PRESERVING, _EXPANSION = range(4)


@memoize
def _kind(signature: Signature) -> int:
    """A constant, an op that makes constants of constants (and perhaps spreads a scalar), or any other op."""
    if is_constant(signature):
        return _SOURCE
    if is_scalar_expansion(signature):
        return _EXPANSION
    return _PRESERVING if is_constant_preserving(signature) else _PLAIN


def split_constants(working: Working) -> None:
    """Give every use of a constant expression or of a broadcast scalar, scalars aside, a copy of its own."""
    _Splitter(working).run()


class _Splitter:
    def __init__(self, working: Working) -> None:
        self.working = working
        self.constants: dict[int, Op] = {}  # value → the op that makes it; insertion order is program order
        self.expansions: dict[int, Op] = {}
        self.copies: dict[Op, list[Op]] = {}  # op → what to insert before it
        self.counts: dict[int, int] = {}  # uses that constants and expansions keep
        self.kinds: dict[Signature, int] = {}
        self.groups: dict[int, list[Op]] = {}

    def run(self) -> None:
        for group in self.working.special.get(GROUP, ()):
            self.groups.setdefault(group.operands[0], []).append(group)
        self._visit(self.working.block)
        dead = self._dead()
        if self.copies or dead:
            self._rebuild(self.working.block, dead)
        if dead and self.groups:
            kept = [op for op in self.working.special[GROUP] if op not in dead]
            self.working.special[GROUP] = kept + [op for ops in self.copies.values() for op in ops if op.name == GROUP]

    def _visit(self, block: Block) -> None:
        constants, expansions, kinds = self.constants, self.expansions, self.kinds
        for op in block.ops:
            signature = op.signature
            kind = kinds.get(signature)
            if kind is None:
                kind = kinds[signature] = _kind(signature)
            operands = op.operands
            if kind == _SOURCE:
                constants[op.results[0]] = op
            elif kind >= _PRESERVING and operands[0] in constants and constants.keys() >= set(operands):
                constants[op.results[0]] = op
                self._count(operands)
            elif kind == _EXPANSION:
                expansions[op.results[0]] = op
                self._count(operands)
            elif signature.name != GROUP:
                for value in operands:
                    if value in constants or value in expansions:
                        op.operands = tuple([self._own(value) for value in operands])
                        self._count(op.operands)
                        break
            for region in op.regions:
                self._visit(region)

    def _count(self, operands: Iterable[int]) -> None:
        for value in operands:
            if value in self.constants or value in self.expansions:
                self.counts[value] = self.counts.get(value, 0) + 1

    def _own(self, value: int) -> int:
        """A copy of `value` with all that it is made of, or `value` itself if it is no constant or a scalar."""
        if value not in self.constants and value not in self.expansions:
            return value
        return self._clone(value, {})

    def _clone(self, value: int, done: dict[int, int]) -> int:
        op = self.constants.get(value) or self.expansions.get(value)
        if op is None or self.working.types[value].rank == 0:
            return value
        if value in done:
            return done[value]
        operands = tuple([self._clone(operand, done) for operand in op.operands])
        self._count(operands)
        copied = self.working.new_value(self.working.types[value], self.working.shardings[value])
        done[value] = copied
        before = self.copies.setdefault(op, [])
        before.append(Op(op.signature, operands, (copied,), (), op.location))
        for group in reversed(self.groups.get(value, ())):
            before.append(Op(group.signature, (copied,), (), (), group.location))
        return copied

    def _dead(self) -> set[Op]:
        """Constants that nothing but sharding groups reads any more, and those groups."""
        dead: set[Op] = set()
        for value, op in (*self.expansions.items(), *reversed(self.constants.items())):
            if self.counts.get(value, 0):
                continue
            dead.add(op)
            dead.update(self.groups.get(value, ()))
            for operand in op.operands:
                if operand in self.counts:
                    self.counts[operand] -= 1
        return dead

    def _rebuild(self, block: Block, dead: set[Op]) -> None:
        ops: list[Op] = []
        for op in block.ops:
            before = self.copies.get(op)
            if before is not None:
                ops.extend(before)
            if op not in dead:
                ops.append(op)
            for region in op.regions:
                self._rebuild(region, dead)
        block.ops = ops


def merge_constants(working: Working) -> None:
    """Make one of constants, and of broadcasts of one scalar, that are alike and stand in the same region."""
    replaced: dict[int, int] = {}
    _merge(working, working.block, replaced)


def _merge(working: Working, block: Block, replaced: dict[int, int]) -> None:
    seen: dict[object, int] = {}
    shardings = working.shardings
    kept: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _merge(working, region, replaced)
        if replaced:
            for value in op.operands:
                if value in replaced:
                    op.operands = tuple([replaced.get(value, value) for value in op.operands])
                    break
        if op.signature.name in _CONSTANTS or is_scalar_expansion(op.signature):
            result = op.results[0]
            first = seen.setdefault((op.signature, shardings[result], op.operands), result)
            if first != result:
                replaced[result] = first
                continue
        kept.append(op)
    block.ops = kept
