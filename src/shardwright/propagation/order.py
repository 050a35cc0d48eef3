"""The order in which XLA has the ops of a program when it propagates, and back to the order in which they are written.

Where shardings compete, the order of ops decides. JAX compiles by way of HLO, in which ops have no order: XLA hands
them to Shardy each after what it reads, operands first to last, beginning with what is returned, and without those that
nothing reads. Propagated like this, a program gets the shardings of its executable, and it does not matter in which
order independent ops are written.

Source: `HloComputation::MakeInstructionPostOrder` of XLA.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from shardwright.ir.graph import Block, Op
from shardwright.propagation.effects import is_pure
from shardwright.propagation.working import Working, special_ops

__all__ = ["Places", "order_by_use", "restore"]

Places = dict[Op, int]
"""Op → its place in the program as it is written, an op before those in its regions."""


def order_by_use(working: Working) -> Places:
    """Bring the ops of every block into the order in which they are used, and drop those that nothing uses.

    Returns:
        The places that they had, for `restore`.
    """
    places = dict(zip(working.block.walk(), itertools.count()))
    for block in working.block.blocks():
        _order(block)
    if working.special:
        working.special = special_ops(working.block)
    return places


def restore(block: Block, places: Places) -> None:
    """Bring ops back to their places, those that came in between before what reads them first."""
    for one in block.blocks():
        written = sorted([op for op in one.ops if op in places], key=places.__getitem__)
        one.ops = _each_after_what_it_reads(one.ops, [*written[:-1], *one.ops])


def _order(block: Block) -> None:
    used: set[int] = set()
    for op in block.ops:
        used.update(op.reads())
    last = block.ops[-1]
    roots = [op for op in block.ops if used.isdisjoint(op.results) and (op is last or not is_pure(op))]
    ordered = _each_after_what_it_reads(block.ops, roots)
    kept = {*ordered, *roots}
    unread = {op for op in block.ops if op not in kept and not is_pure(op)}  # only what nobody reads reads them
    if unread:
        unread.update(roots)
        ordered = _each_after_what_it_reads(block.ops, [op for op in block.ops if op in unread])
    block.ops = ordered


def _each_after_what_it_reads(ops: Iterable[Op], roots: Iterable[Op]) -> list[Op]:
    """The roots in order, each after those of `ops` that it depends on, which come operands first to last."""
    makers = {value: op for op in ops for value in op.results}
    ordered: dict[Op, bool] = {}  # whether what an op reads has been looked at, then whether it has its place
    waiting: list[Op] = []
    placed: list[Op] = []
    for root in roots:
        waiting.append(root)
        while waiting:
            op = waiting[-1]
            if op not in ordered:
                ordered[op] = False
                for value in reversed(op.reads()):
                    maker = makers.get(value)
                    if maker is not None and maker not in ordered:
                        waiting.append(maker)
                if waiting[-1] is not op:
                    continue
            waiting.pop()
            if not ordered[op]:
                ordered[op] = True
                placed.append(op)
    return placed
