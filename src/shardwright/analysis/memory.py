"""How much memory a per-device program holds, by a walk over it in program order.

An estimate of what a compiler that keeps this order needs, in bytes per device:

- A result takes a buffer when its op runs and gives it back after its last use. Arguments live throughout, donated ones
  until their last use.
- Elementwise ops, `dynamic_update_slice`, `scatter` and `all_reduce` write into an operand of the same type that nobody
  reads afterwards.
- `reshape` and `optimization_barrier` share their operand's buffer. Splats, iotas and broadcasts take none: compilers
  compute them where they are read.
- A loop's carried buffers count once: they are its operands where those die or no turn changes them, copies where they
  live on, and then its results. Inside, a carried buffer lives until its last use in the body.
- Of the branches of a `case` the one with the highest peak counts.
- An argument returned as it is, if it is not donated, is copied.

Fusion makes real peaks smaller, scratch space of kernels makes them bigger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardwright.analysis.fusion import Fusion
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.locations import Location
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.traits import facts_of

__all__ = [
    "Alive",
    "Buffer",
    "MemoryUse",
    "donated_arguments",
    "held_at_peak",
    "held_over",
    "is_computed_where_read",
    "memory",
]

_DONATED = ("jax.buffer_donor", "tf.aliasing_output")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes that a program holds on each device.

    Attributes:
        arguments: All arguments.
        donated: Those of them that may be overwritten.
        results: All results.
        peak: The most that is alive at once.
        peak_op: The op at which that is, or empty when it is at the start.
        peak_location: Where that op comes from.
    """

    arguments: int
    donated: int
    results: int
    peak: int
    peak_op: str
    peak_location: Location


@dataclass(frozen=True, slots=True)
class Buffer:
    """What a device holds in one piece.

    Attributes:
        bytes: How much.
        op: What wrote into it first; empty where it came with the program, as an argument does.
        name: What the argument is called, if it is one.
        location: Where the op comes from; unknown of an argument.
    """

    bytes: int
    op: str
    name: str
    location: Location


def donated_arguments(graph: Graph) -> frozenset[int]:
    """The arguments (values) whose buffers the program may overwrite."""
    pairs = zip(graph.main.block.arguments, graph.main.argument_attributes, strict=True)
    return frozenset(value for value, attributes in pairs if any(name in attributes for name in _DONATED))


def memory(graph: Graph) -> MemoryUse:
    """What a per-device program holds at its peak; see this module for what is counted."""
    walk, peak, _ = _peak_of(graph)
    main = graph.main.block
    return MemoryUse(
        walk.bytes(main.arguments),
        walk.bytes(donated_arguments(graph)),
        walk.bytes(main.terminator.operands),
        peak.bytes,
        peak.op.name if peak.op else "",
        graph.locations[peak.op.location] if peak.op else Location(),
    )


def held_over(graph: Graph) -> list[int]:
    """Bytes that each device holds while the ops of a per-device program run, in order, one number for each.

    Of an op with regions that is the most while these run.
    """
    walk, main = _Walk(graph), graph.main.block
    return walk.over(main, donated_arguments(graph))


def held_at_peak(graph: Graph) -> tuple[Buffer, ...]:
    """What each device holds where it holds most, the largest first; together `MemoryUse.peak`."""
    walk, peak, copied = _peak_of(graph)
    main = graph.main.block
    sizes = [*walk.held(main, donated_arguments(graph), peak.op).items()]
    sizes += [(value, walk.types[value].bytes) for value in copied]
    makers = {value: op for op in graph.walk() for value in _made_by(op)}
    names = dict(zip(main.arguments, graph.main.argument_names, strict=True))
    found = [_buffer(graph, value, size, makers.get(value), names.get(value, "")) for value, size in sizes if size]
    return tuple(sorted(found, key=lambda buffer: -buffer.bytes))


def _peak_of(graph: Graph) -> tuple[_Walk, _Peak, list[int]]:
    """Where a program holds most, and the arguments that are held there once more, to be returned."""
    walk, main, donated = _Walk(graph), graph.main.block, donated_arguments(graph)
    peak = walk.block(main, donated)
    kept = [value for value in main.terminator.operands if value in main.arguments and value not in donated]
    copies = peak.at_end + walk.bytes(kept)
    if copies <= peak.bytes:
        return walk, peak, []
    return walk, _Peak(copies, main.terminator, copies), kept


def _made_by(op: Op) -> Iterator[int]:
    """The values that an op makes: its results, and what its regions begin with."""
    yield from op.results
    for region in op.regions:
        yield from region.arguments


def _buffer(graph: Graph, value: int, size: int, maker: Op | None, name: str) -> Buffer:
    location = graph.locations[maker.location] if maker else Location()
    return Buffer(size, maker.signature.label if maker else "", name, location)


@dataclass(frozen=True, slots=True)
class _Peak:
    """The most bytes alive in a block, at which op (`None`: before the first), and the bytes alive at its end."""

    bytes: int
    op: Op | None
    at_end: int


class _Walk:
    def __init__(self, graph: Graph) -> None:
        self.types = graph.types

    def bytes(self, values: Collection[int]) -> int:
        """Bytes of values, each of them once for each time it is listed."""
        return sum(self.types[value].bytes for value in values)

    def block(self, block: Block, freed: Collection[int]) -> _Peak:
        """The peak of a block that begins with its arguments alive and may free those in `freed`."""
        alive = Alive(block, freed, self.types)
        most, at, at_end = alive.bytes, None, alive.bytes
        alive.release(-1)
        for number, op in enumerate(block.ops):
            taken = alive.take(op, number)
            inner = self.regions(op, taken)
            at_end = alive.bytes
            if at_end + inner.bytes > most:
                most, at = at_end + inner.bytes, inner.op or op
            alive.release(number)
        return _Peak(most, at, at_end)

    def over(self, block: Block, freed: Collection[int]) -> list[int]:
        """The bytes held while each op of a block runs."""
        alive, held = Alive(block, freed, self.types), []
        alive.release(-1)
        for number, op in enumerate(block.ops):
            taken = alive.take(op, number)
            held.append(alive.bytes + self.regions(op, taken).bytes)
            alive.release(number)
        return held

    def held(self, block: Block, freed: Collection[int], at: Op | None) -> dict[int, int]:
        """The buffers of a block, by the values they were made for, while an op runs; `None`: before the first."""
        alive = Alive(block, freed, self.types)
        if at is None:
            return dict(alive.size)
        alive.release(-1)
        for number, op in enumerate(block.ops):
            alive.take(op, number)
            if op is at:
                break
            for region in op.regions:
                if any(inner is at for inner in region.walk()):
                    inside = self.held(region, region.arguments, at)
                    results = {alive.root.get(value, value) for value in op.results}
                    return {**{value: size for value, size in alive.size.items() if value not in results}, **inside}
            alive.release(number)
        return dict(alive.size)

    def regions(self, op: Op, carried: int) -> _Peak:
        """What the regions of `op` hold beside `carried`, the bytes of its results that already count."""
        worst = _Peak(0, None, 0)
        for region in op.regions:
            inner = self.block(region, region.arguments)
            beside = max(0, inner.bytes - carried)
            if beside > worst.bytes:
                worst = _Peak(beside, inner.op, 0)
        return worst


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
        self.last = fusion.last if fusion else _last_uses(block)
        self.kept = set(block.arguments) - set(freed)
        self.dying: dict[int, list[int]] = {}  # some more than once
        for value in block.arguments:
            self._expire(value, -1)

    def take(self, op: Op, number: int) -> int:
        """Give the results of the op at `number` their buffers; returns the bytes of those of an op with regions."""
        facts, root = facts_of(op.signature.name), self.root
        is_of_parts = bool(self.parts) and not self.parts.keys().isdisjoint((*op.operands, *op.results))
        if facts.shares_buffer and not is_of_parts:
            for result, operand in zip(op.results, op.operands, strict=True):
                self._share(result, operand)
        is_loop = op.signature.name == "stablehlo.while"
        if is_loop:
            for result, operand in _passed_through(op):
                self._share(result, operand)
        reuses = facts.in_place or facts.elementwise or is_loop
        reusable = self._reusable(op, number) if reuses else []
        for position, result in enumerate(op.results):
            if result not in root:
                self._allocate(op, position, result, reusable)
            self._expire(result, number)
        return sum([self.types[value].bytes for value in op.results]) if op.regions else 0

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
