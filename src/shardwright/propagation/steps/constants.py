"""Constants, split before propagation and merged after it.

Frontends share one `zeros` among hundreds of users. Propagated as one value it would carry the sharding of one user
to all others, though each could have its own copy for free. So every use of a constant expression, or of a broadcast
scalar, first gets its own copy; after propagation, copies that ended up alike become one again. A named computation of
constants alone, in which nothing but constant expressions can stand, is one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from shardwright.ir.copying import cloned
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import RETURNS
from shardwright.ir.signature import Signature
from shardwright.propagation.working import GROUP, NAMED, Working
from shardwright.rules.traits import facts_of, is_constant_preserving, is_scalar_expansion

__all__ = ["is_merged", "merge_constants", "merge_scalars", "preserves_constants", "split_constants"]

_SEEN_THROUGH = RETURNS | {NAMED, GROUP}
"""What may stand among constant expressions."""

_PLAIN, _HOLDER, _SOURCE, _PRESERVING, _EXPANSION = range(5)


def preserves_constants(signature: Signature) -> bool:
    """Whether an op, no call or named computation, makes a constant expression, if need be of such."""
    return _kind(signature) >= _SOURCE


def _kind(signature: Signature) -> int:
    """A constant, an op that makes constants of constants (and perhaps spreads a scalar), or any other op."""
    if signature.name in (NAMED, "func.call"):
        return _HOLDER
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
        operands = op.operands
        if not operands:
            result = op.results[0] if facts_of(op.signature.name).literal else None
            if result is not None and types[result].shape == () and shardings[result] is None and result not in kept:
                first = seen.setdefault(id(op.signature), result)
                if first != result:
                    replaced[result] = first
                    continue
        elif not replaced.keys().isdisjoint(operands):
            op.operands = tuple([replaced.get(value, value) for value in operands])
        for region in op.regions:
            _merge_scalars(working, region, kept, replaced)
        ops.append(op)
    block.ops = ops


class ConstantSplits(NamedTuple):
    """What splitting the constants of one block has changed, in the order in which it was done.

    Attributes:
        copies: Every copy, what it is a copy of, and the op that it stands before.
        readers: The ops that read copies now.
        dead: Constants that nothing but sharding groups reads any more, and those groups; readers first.
    """

    copies: list[tuple[Op, Op, Op]]
    readers: list[Op]
    dead: dict[Op, None]


def split_constants(working: Working, holds_constants: Callable[[Op], bool] | None = None) -> list[ConstantSplits]:
    """Give every use of a constant expression or of a broadcast scalar, scalars aside, a copy of its own.

    Arguments:
        working: The program, which is changed: first what stands in named computations, which may be copied then.
        holds_constants: Whether a named computation, or a call, is a constant expression once its operands are; what
            stands in a computation says so otherwise.
    """
    groups: dict[int, list[Op]] = {}
    for group in working.special.get(GROUP, ()):
        groups.setdefault(group.operands[0], []).append(group)
    blocks = [op.regions[0] for op in working.special.get(NAMED, ())]
    return [
        _BlockSplitter(working, groups, holds_constants or _holds_constants).run(b) for b in (*blocks, working.block)
    ]


class _BlockSplitter:
    """Splits what stands in one block, named computations in it seen from outside only."""

    def __init__(self, working: Working, groups: dict[int, list[Op]], holds_constants: Callable[[Op], bool]) -> None:
        self.working = working
        self.groups = groups
        self.holds_constants = holds_constants
        self.split = ConstantSplits([], [], {})
        self.constants: dict[int, Op] = {}  # value → the op that makes it; insertion order is program order
        self.expansions: dict[int, Op] = {}
        self.copies: dict[Op, list[Op]] = {}  # op → what to insert before it
        self.counts: dict[int, int] = {}  # uses that constants and expansions keep
        self.kinds: dict[int, int] = {}  # of signatures, by identity

    def run(self, block: Block) -> ConstantSplits:
        self._visit(block)
        self._find_dead()
        if self.copies or self.split.dead:
            self._rebuild(block)
        return self.split

    def _visit(self, block: Block) -> None:
        constants, expansions, kinds = self.constants, self.expansions, self.kinds
        for op in block.ops:
            signature = op.signature
            kind = kinds.get(id(signature))
            if kind is None:
                kind = kinds[id(signature)] = _kind(signature)
            operands = op.operands
            if kind == _HOLDER and constants.keys() >= set(operands) and self.holds_constants(op):
                constants.update(dict.fromkeys(op.results, op))
                self._count(operands)
            elif kind == _SOURCE:
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
                        self.split.readers.append(op)
                        break
            if signature.name == NAMED:
                continue
            for region in op.regions:
                self._visit(region)

    def _count(self, operands: Iterable[int]) -> None:
        for value in operands:
            if value in self.constants or value in self.expansions:
                self.counts[value] = self.counts.get(value, 0) + 1

    def _maker(self, value: int) -> Op | None:
        """The op that is copied for a use of `value`; none for what is no constant, or a scalar."""
        op = self.constants.get(value) or self.expansions.get(value)
        return None if op is None or self.working.types[value].shape == () else op

    def _own(self, value: int) -> int:
        """A copy of `value` with all that it is made of, or `value` itself where that stays."""
        if self._maker(value) is None:
            return value
        done: dict[int, int] = {}
        pending = [value]
        while pending:
            value = pending[-1]
            op = self._maker(value)
            missing = [made for made in op.operands if made not in done and self._maker(made)] if op else ()
            if missing:
                pending.append(missing[0])
                continue
            if op and value not in done:
                self._clone(op, value, done)
            pending.pop()
        return done.get(value, value)

    def _clone(self, op: Op, value: int, done: dict[int, int]) -> None:
        """Copy an op whose operands have their copies, and the groups of the one of its results that is asked for."""
        copy = cloned(op, done, self._like)
        self._count(copy.operands)
        self._insert(copy, op, op)
        groups = self.groups.get(value)
        if groups:  # in the order of MLIR's use lists, which import of constants reverses
            for group in groups if facts_of(op.name).literal else reversed(groups):
                self._insert(Op(group.signature, (done[value],), (), (), group.location), group, op)

    def _insert(self, copy: Op, original: Op, place: Op) -> None:
        self.copies.setdefault(place, []).append(copy)
        self.split.copies.append((copy, original, place))

    def _like(self, value: int) -> int:
        return self.working.new_value(self.working.types[value], self.working.shardings[value])

    def _find_dead(self) -> None:
        dead = self.split.dead
        for op in dict.fromkeys((*self.expansions.values(), *reversed(self.constants.values()))):
            if any(self.counts.get(value, 0) for value in op.results):
                continue
            if self.groups:
                dead.update((group, None) for value in op.results for group in self.groups.get(value, ()))
            dead[op] = None
            for operand in op.operands:
                if operand in self.counts:
                    self.counts[operand] -= 1

    def _rebuild(self, block: Block) -> None:
        copies, dead = self.copies, self.split.dead
        for one in block.blocks():
            ops: list[Op] = []
            for op in one.ops:
                ops += copies.get(op, ())
                if op not in dead:
                    ops.append(op)
            one.ops = ops


def _holds_constants(computation: Op) -> bool:
    """Whether nothing but constant expressions can stand in a named computation."""
    (body,) = computation.regions
    return all(op.name in _SEEN_THROUGH or preserves_constants(op.signature) for op in body.walk())


def is_merged(signature: Signature) -> bool:
    """Whether ops that are alike are made one after propagation: constants, and broadcasts of scalars."""
    return facts_of(signature.name).literal or is_scalar_expansion(signature)


def merge_constants(working: Working) -> None:
    """Make one of constants, and of broadcasts of one scalar, that are alike and stand in the same region."""
    replaced: dict[int, int] = {}
    merged: dict[int, bool] = {}
    for block in working.block.blocks():
        block.ops = _merged(working, block, replaced, merged)


def _merged(working: Working, block: Block, replaced: dict[int, int], merged: dict[int, bool]) -> list[Op]:
    """`replaced`: value → what is read instead; `merged`: signature, by identity → whether such ops are merged."""
    seen: dict[object, int] = {}
    shardings = working.shardings
    kept: list[Op] = []
    for op in block.ops:
        if replaced:
            for value in op.operands:
                if value in replaced:
                    op.operands = tuple([replaced.get(value, value) for value in op.operands])
                    break
        signature = op.signature
        merges = merged.get(id(signature))
        if merges is None:
            merges = merged[id(signature)] = is_merged(signature)
        if merges:
            result = op.results[0]
            first = seen.setdefault((signature, shardings[result], op.operands), result)
            if first != result:
                replaced[result] = first
                continue
        kept.append(op)
    return kept
