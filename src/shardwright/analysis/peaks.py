"""The peak of many programs that are made of the same ops: what `memory` tells, of programs without regions.

What an op does to buffers is told once, apart from the program that it stands in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from shardwright.analysis.memory import is_computed_where_read
from shardwright.ir.graph import Op
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.traits import facts_of

__all__ = ["Buffers", "buffers_of", "peak_bytes"]


class Buffers(NamedTuple):
    """What an op does to the buffers of its block.

    Attributes:
        reads: The values that it reads.
        makes: The values that it makes, each with its bytes; 0 of what is computed where it is read.
        is_sharing: Whether its results share the buffers of its operands.
        is_reusing: Whether it may write into what it reads last.
    """

    reads: tuple[int, ...]
    makes: tuple[tuple[int, int], ...]
    is_sharing: bool
    is_reusing: bool


def buffers_of(op: Op) -> Buffers | None:
    """What an op without regions does to buffers; `None` where it does nothing."""
    sizes, is_sharing, is_reusing = _of_signature(op.signature)
    if not (op.operands or any(sizes)):
        return None
    return Buffers(op.operands, tuple(zip(op.results, sizes, strict=True)), is_sharing, is_reusing)


@memoize
def _of_signature(signature: Signature) -> tuple[tuple[int, ...], bool, bool]:
    """The bytes of what ops of a signature make, and whether they share buffers, or write into those they read."""
    facts, is_nothing = facts_of(signature.name), is_computed_where_read(signature)
    sizes = tuple([0 if is_nothing else type.bytes for type in signature.results])
    return sizes, facts.shares_buffer, facts.in_place or facts.elementwise


def peak_bytes(arguments: Sequence[tuple[int, int]], donated: Collection[int], ops: Sequence[Buffers]) -> int:
    """The most bytes that are alive at once in a block, as `memory` counts them.

    Arguments:
        arguments: The arguments, each with its bytes.
        donated: Those that may be overwritten.
        ops: What its ops do, in order; the last one returns what it reads.
    """
    walk = _Walk(arguments, donated, ops)
    walk.run(ops)
    sizes = dict(arguments)
    return max(walk.peak, walk.at_end + sum([sizes[value] for value in ops[-1].reads if value in walk.kept]))


class _Walk:
    """The buffers alive at a point of a block: see `memory._Alive`, of which this is what blocks without regions need.

    What takes no buffer has no root. The way of one op is written out in one loop: a call each would be most of it.
    """

    def __init__(self, arguments: Sequence[tuple[int, int]], donated: Collection[int], ops: Sequence[Buffers]) -> None:
        self.last: dict[int, int] = {}
        last = self.last
        for number, op in enumerate(ops):
            for value in op[0]:
                last[value] = number
        self.root = {value: value for value, _ in arguments}
        self.size = dict(arguments)
        self.kept = self.root.keys() - set(donated)
        self.peak = self.bytes = self.at_end = sum(self.size.values())
        self.dying: dict[int, list[int]] = {}
        for value in donated:
            if value in last:
                self.dying.setdefault(last[value], []).append(value)
            else:
                self.bytes -= self.size.pop(value)

    def run(self, ops: Sequence[Buffers]) -> None:
        """Run all ops."""
        root, size, last, kept, dying = self.root, self.size, self.last, self.kept, self.dying
        alive, peak = self.bytes, self.peak
        for number, (reads, makes, is_sharing, is_reusing) in enumerate(ops):
            if is_sharing:
                self.share(reads, makes)
            taken: tuple[int, ...] = ()
            for value, bytes in makes:
                buffer = root.get(value, -1)
                if buffer < 0:
                    if not bytes:
                        continue
                    for read in reads if is_reusing else ():
                        other = root.get(read, -1)
                        if size.get(other) != bytes or last[other] > number or other in kept or other in taken:
                            continue
                        buffer, taken = other, (*taken, other)
                        break
                    if buffer < 0:
                        buffer = value
                        size[value] = bytes
                        alive += bytes
                    root[value] = buffer
                end = last.get(value, number)  # a result is read behind its op, if at all
                if buffer != value and last[buffer] > end:
                    end = last[buffer]
                last[buffer] = end
                if end in dying:
                    dying[end].append(buffer)
                else:
                    dying[end] = [buffer]
            self.at_end = alive
            if alive > peak:
                peak = alive
            if number in dying:
                for buffer in dying[number]:
                    if last[buffer] <= number and buffer not in kept:
                        alive -= size.pop(buffer, 0)
        self.peak = peak

    def share(self, reads: tuple[int, ...], makes: tuple[tuple[int, int], ...]) -> None:
        """Have what an op makes live in the buffers of what it reads."""
        for (value, _), operand in zip(makes, reads, strict=True):
            root = self.root[value] = self.root.get(operand, operand)
            self.last[root] = max(self.last.get(root, -1), self.last.get(value, -1))
