"""The peak of many programs that are made of the same ops: what `memory` tells, of programs without regions.

What an op does to buffers is told once, apart from the program that it stands in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    for number, op in enumerate(ops):
        walk.step(number, op)
    sizes = dict(arguments)
    return max(walk.peak, walk.at_end + sum(sizes[value] for value in ops[-1].reads if value in walk.kept))


class _Walk:
    """The buffers alive at a point of a block: see `memory._Alive`, of which this is what blocks without regions need.

    What takes no buffer has no root.
    """

    def __init__(self, arguments: Sequence[tuple[int, int]], donated: Collection[int], ops: Iterable[Buffers]) -> None:
        self.last: dict[int, int] = {}
        last = self.last
        for number, op in enumerate(ops):
            for value in op[0]:
                last[value] = number
        self.root = {value: value for value, _ in arguments}
        self.size = dict(arguments)
        self.kept = self.root.keys() - set(donated)
        self.bytes = self.at_end = self.peak = sum(self.size.values())
        self.dying: dict[int, list[int]] = {}
        for value in donated:
            self.dying.setdefault(last.get(value, -1), []).append(value)
        self.release(-1)

    def step(self, number: int, op: Buffers) -> None:
        """Run an op."""
        _, makes, is_sharing, is_reusing = op
        if is_sharing:
            for (value, _), operand in zip(makes, op.reads, strict=True):
                self.share(value, operand)
        reusable = self.reusable(number, op) if is_reusing else []
        root, last, dying = self.root, self.last, self.dying
        for value, size in makes:
            if value not in root:
                if not size:
                    continue
                self.allocate(value, size, reusable)
            buffer = root[value]
            end = last.get(buffer, -1)
            if end < number:
                last[buffer] = end = number
            if end in dying:
                dying[end].append(buffer)
            else:
                dying[end] = [buffer]
        self.at_end = self.bytes
        if self.bytes > self.peak:
            self.peak = self.bytes
        if number in dying:
            self.release(number)

    def share(self, value: int, operand: int) -> None:
        """Have a value live in the buffer of an operand."""
        root, last = self.root.get(operand, operand), self.last
        self.root[value] = root
        end = last.get(value, -1)
        if end > last.get(root, -1):
            last[root] = end

    def reusable(self, number: int, op: Buffers) -> list[int]:
        """The buffers that an op reads last and may write into."""
        root, size, last, kept = self.root, self.size, self.last, self.kept
        found: list[int] = []
        for value in op.reads:
            buffer = root.get(value)
            if buffer in size and last.get(buffer, -1) <= number and buffer not in kept and buffer not in found:
                found.append(buffer)
        return found

    def allocate(self, value: int, size: int, reusable: list[int]) -> None:
        """Give a value a buffer."""
        for root in reusable:
            if self.size[root] == size:
                reusable.remove(root)
                self.share(value, root)
                return
        self.root[value] = value
        self.size[value] = size
        self.bytes += size

    def release(self, number: int) -> None:
        """Free what the op at a number was the last to use."""
        for root in self.dying.pop(number, ()):
            if self.last.get(root, -1) <= number and root not in self.kept:
                self.bytes -= self.size.pop(root, 0)
