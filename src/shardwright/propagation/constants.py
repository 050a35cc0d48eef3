"""Constants, split before propagation and merged after it.

Frontends share one `zeros` among hundreds of users. Propagated as one value it would carry the sharding of one user
to all others, though each could have its own copy for free. So every use of a constant expression, or of a broadcast
scalar, first gets its own copy; after propagation, copies that ended up alike become one again. A named computation of
constants alone, in which nothing but constant expressions can stand, is one too.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.propagation.working import GROUP, NAMED, Working
from shardwright.rules.traits import facts_of, is_constant_preserving, is_scalar_expansion

__all__ = ["merge_constants", "merge_scalars", "split_constants"]

_PLAIN, _SOURCE, _PRESERVING, _EXPANSION = range(4)


@memoize
def _kind(signature: Signature) -> int:
    """A constant, an op that makes constants of constants (and perhaps spreads a scalar), or any other op."""
    if facts_of(signature.name).constant:
        return _SOURCE
    if is_scalar_expansion(signature):
        return _EXPANSION
    return _PRESERVING if is_constant_preserving(signature) else _PLAIN


def merge_scalars(working: Working) -> None:
    """Make one of scalar constants of a block that are alike: frontends write one for each use, a third of all ops.

    They end as one in any case (see `merge_constants`), but not where Shardy has it. Constants stay of which something
    is said, or that ops read which say something.
    """
    kept = {value for ops in working.special.values() for op in ops for value in op.operands}
    _merge_scalars(working, working.block, kept, {})


def _merge_scalars(working: Working, block: Block, kept: set[int], replaced: dict[int, int]) -> None:
    shardings, types = working.shardings, working.types
    kept = kept.union(block.terminator.operands)
    seen: dict[int, int] = {}  # by identity: readers give equal ops one signature
    ops: list[Op] = []
    for op in block.ops:
        signature = op.signature
        if facts_of(signature.name).literal:
            (result,) = op.results
            if types[result].shape == () and shardings[result] is None and result not in kept:
                first = seen.setdefault(id(signature), result)
                if first != result:
                    replaced[result] = first
                    continue
        elif not replaced.keys().isdisjoint(op.operands):
            op.operands = tuple([replaced.get(value, value) for value in op.operands])
        for region in op.regions:
            _merge_scalars(working, region, kept, replaced)
        ops.append(op)
    block.ops = ops


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
        self.kinds: dict[int, int] = {}  # of signatures, by identity
        self.groups: dict[int, list[Op]] = {}

    def run(self) -> None:
        for group in self.working.special.get(GROUP, ()):
            self.groups.setdefault(group.operands[0], []).append(group)
        self._split(self.working.block)

    def _split(self, block: Block) -> None:
        self._visit(block)
        dead = self._dead()
        if self.copies or dead:
            self._rebuild(block, dead)
        if dead and self.groups:
            kept = [op for op in self.working.special[GROUP] if op not in dead]
            copied = (op for ops in self.copies.values() for op in Block((), ops).walk())
            self.working.special[GROUP] = kept + [op for op in copied if op.name == GROUP]

    def _visit(self, block: Block) -> None:
        constants, expansions, kinds = self.constants, self.expansions, self.kinds
        for op in block.ops:
            signature = op.signature
            kind = kinds.get(id(signature))
            if kind is None:
                kind = kinds[id(signature)] = _kind(signature)
            operands = op.operands
            if signature.name == NAMED:
                self._split_computation(op)
                if constants.keys() >= set(operands) and _preserves(op.regions[0]):
                    constants.update(dict.fromkeys(op.results, op))
                    self._count(operands)
                    continue
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
            if signature.name == NAMED:
                continue
            for region in op.regions:
                self._visit(region)

    def _split_computation(self, op: Op) -> None:
        """Split what stands in a named computation, which sees nothing outside, before it may be copied."""
        inner = _Splitter(self.working)
        inner.groups = self.groups
        inner._split(op.regions[0])

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
        results = tuple([self._copied(result, done) for result in op.results])
        before = self.copies.setdefault(op, [])
        before.append(Op(op.signature, operands, results, self._copied_regions(op, done), op.location))
        for result in op.results:
            for group in reversed(self.groups.get(result, ())):
                before.append(Op(group.signature, (done[result],), (), (), group.location))
        return done[value]

    def _copied(self, value: int, done: dict[int, int]) -> int:
        done[value] = self.working.new_value(self.working.types[value], self.working.shardings[value])
        return done[value]

    def _copied_regions(self, op: Op, done: dict[int, int]) -> tuple[Block, ...]:
        return tuple([self._copied_block(region, dict(done)) for region in op.regions])

    def _copied_block(self, block: Block, done: dict[int, int]) -> Block:
        arguments = tuple([self._copied(value, done) for value in block.arguments])
        ops: list[Op] = []
        for op in block.ops:
            operands = tuple([done[value] for value in op.operands])
            results = tuple([self._copied(value, done) for value in op.results])
            ops.append(Op(op.signature, operands, results, self._copied_regions(op, done), op.location))
        return Block(arguments, ops)

    def _dead(self) -> set[Op]:
        """Constants that nothing but sharding groups reads any more, and those groups."""
        dead: set[Op] = set()
        for op in dict.fromkeys((*self.expansions.values(), *reversed(self.constants.values()))):
            if any(self.counts.get(value, 0) for value in op.results):
                continue
            dead.add(op)
            dead.update(group for value in op.results for group in self.groups.get(value, ()))
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


def _preserves(block: Block) -> bool:
    """Whether nothing but constant expressions can stand in a named computation."""
    return all(
        _preserves(op.regions[0]) if op.signature.name == NAMED else op.name == GROUP or _kind(op.signature) != _PLAIN
        for op in block.ops[:-1]
    )


def merge_constants(working: Working) -> None:
    """Make one of constants, and of broadcasts of one scalar, that are alike and stand in the same region."""
    _merge(working, working.block, {}, {})


def _merge(working: Working, block: Block, replaced: dict[int, int], merged: dict[int, bool]) -> None:
    """`replaced`: value → what is read instead; `merged`: signature, by identity → whether such ops are merged."""
    seen: dict[object, int] = {}
    shardings = working.shardings
    kept: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _merge(working, region, replaced, merged)
        if replaced:
            for value in op.operands:
                if value in replaced:
                    op.operands = tuple([replaced.get(value, value) for value in op.operands])
                    break
        signature = op.signature
        is_merged = merged.get(id(signature))
        if is_merged is None:
            is_merged = merged[id(signature)] = facts_of(signature.name).literal or is_scalar_expansion(signature)
        if is_merged:
            result = op.results[0]
            first = seen.setdefault((signature, shardings[result], op.operands), result)
            if first != result:
                replaced[result] = first
                continue
        kept.append(op)
    block.ops = kept
