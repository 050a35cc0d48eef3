"""The buffers that are alive while the ops of a block run, one after the other: what is counted of a program's memory.

`analysis.memory` says by which rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from shardwright.analysis.fusion import Fusion
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.traits import facts_of

__all__ = ["Alive", "donated_arguments", "is_computed_where_read"]

_DONATED = ("jax.buffer_donor", "tf.aliasing_output")


def donated_arguments(graph: Graph) -> frozenset[int]:
    """The arguments (values) whose buffers the program may overwrite."""
    pairs = zip(graph.main.block.arguments, graph.main.argument_attributes, strict=True)
    return frozenset(value for value, attributes in pairs if any(name in attributes for name in _DONATED))


class Alive:
    """The buffers alive at a point of a block. Values that share a buffer have one root."""

    def __init__(
        self, block: Block, freed: Collection[int], types: Sequence[TensorType], fusion: Fusion | None = None
    ) -> None:
        self.types = types
        self.parts: Mapping[int, tuple[int, ...]] = fusion.sources if fusion else {}
        self.root: dict[int, int] = {value: value for value in block.arguments}
        self.size: dict[int, int] = {value: types[value].bytes for value in block.arguments}
        self.bytes = sum(self.size.values())
        self.last = dict(fusion.last) if fusion else _last_uses(block)
        self.kept = set(block.arguments) - set(freed)
        self.dying: dict[int, list[int]] = {}  # some more than once
        for value in block.arguments:
            self._expire(value, -1)

    def take(self, op: Op, number: int) -> int:
        """Give the results of the op at `number` their buffers; returns the bytes of those of an op with regions: that
        much of what its regions hold counts already.
        """
        facts, root = facts_of(op.signature.name), self.root
        is_of_parts = bool(self.parts) and not self.parts.keys().isdisjoint((*op.operands, *op.results))
        if facts.shares_buffer and not is_of_parts:
            for result, operand in zip(op.results, op.operands, strict=True):
                self._share(result, operand)
        is_loop = op.signature.name == "stablehlo.while"
        if is_loop:
            for result, operand in _passed_through(op):
                self._share(result, operand)
        reuses = facts.in_place or is_loop or (facts.elementwise and not is_of_parts)  # a kernel of several does not
        reusable = self._reusable(op, number) if reuses else []
        for position, result in enumerate(op.results):
            if result not in root:
                self._allocate(op, position, result, reusable)
            self._expire(result, number)
        if not op.regions:
            return 0
        return sum([self.types[value].bytes for value in op.results if not self._is_nowhere(value)])

    def inside(self, op: Op, region: Block, fusion: Fusion | None = None) -> Alive:
        """The buffers that a region of `op` begins with.

        What takes none outside of a loop, and does not change in it, is computed there in each turn.
        """
        inner = Alive(region, region.arguments, self.types, fusion)
        if op.name == "stablehlo.while":
            for result, value in zip(op.results, region.arguments, strict=True):
                if self._is_nowhere(result):
                    inner.bytes -= inner.size[value]
                    inner.size[value] = 0
        return inner

    def _is_nowhere(self, value: int) -> bool:
        """Whether a value has no buffer here, nor outside of the block."""
        return not self.size.get(self.root[value], 1)

    def release(self, number: int) -> None:
        """Free what the op at `number` was the last to use."""
        for root in self.dying.pop(number, ()):
            if self.last[root] <= number and root not in self.kept:
                self.bytes -= self.size.pop(root, 0)

    def _share(self, result: int, operand: int) -> None:
        """Have `result` live in the buffer of `operand`; one from outside the block counts outside."""
        root = self.root.get(operand, operand)
        self.root[result] = root
        self.last[root] = max(self.last.get(root, -1), self.last.get(result, -1))

    def _allocate(self, op: Op, position: int, result: int, reusable: list[int]) -> None:
        is_nowhere = result in self.parts or is_computed_where_read(op.signature)
        size = 0 if is_nowhere else self.types[result].bytes
        required = self.root.get(op.operands[position]) if op.name == "stablehlo.while" else None
        for root in reusable:
            if self.size[root] == size and required in (None, root):
                reusable.remove(root)
                self._share(result, root)
                return
        self.root[result] = result
        self.size[result] = size
        self.bytes += size

    def _reusable(self, op: Op, number: int) -> list[int]:
        """The buffers that an op reads last, and may write into where it may into any."""
        root, size, last, kept = self.root, self.size, self.last, self.kept
        read = [one for value in op.operands for one in self.parts.get(value, (value,))] if self.parts else op.operands
        roots = dict.fromkeys([root[value] for value in read if value in root])
        return [one for one in roots if one in size and one not in kept and last[one] <= number]

    def _expire(self, value: int, number: int) -> None:
        """Note when the buffer of `value`, made at op `number`, will be free."""
        root = self.root[value]
        end = self.last[root] = max(self.last.get(root, -1), number)
        dying = self.dying.get(end)
        if dying is None:
            self.dying[end] = [root]
        else:
            dying.append(root)


def _passed_through(loop: Op) -> Iterator[tuple[int, int]]:
    """The results of a loop that are its operands, with these: what the body returns as it took it."""
    body = loop.regions[1]
    for number, value in enumerate(body.terminator.operands):
        if value == body.arguments[number]:
            yield loop.results[number], loop.operands[number]


def is_computed_where_read(signature: Signature) -> bool:
    """Whether the results of an op take no buffer, as compilers compute them where they are read."""
    if signature.name == "stablehlo.constant":
        text = signature.text("value") or ""
        return text.startswith("dense<") and not text.startswith(("dense<[", 'dense<"'))
    return facts_of(signature.name).computed_where_read


def _last_uses(block: Block) -> dict[int, int]:
    """For each value that ops of the block read, the number of the last op that does, its regions included."""
    last: dict[int, int] = {}
    for number, op in enumerate(block.ops):
        for value in op.reads() if op.regions else op.operands:
            last[value] = number
    return last
