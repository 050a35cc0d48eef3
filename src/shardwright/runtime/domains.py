"""What values an argument can take, read off what the program does with it.

Two questions, each answered by following values through ops that keep them what they are:

- *Must it not be negative?* Backwards from square roots, logarithms and powers: through sums both terms, through a
  product the factors that are not known to be positive, through moves of data and loops. Second moments of an
  optimizer are found so.
- *What does it index?* Forwards from an integer argument to gathers, scatters, dynamic slices and comparisons with a
  count (one-hot): it is drawn from 0 to below the smallest size that it indexes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from shardwright.ir.graph import Block, Graph, Op
from shardwright.rules.traits import facts_of

__all__ = ["Domain", "domains"]


@dataclass(frozen=True, slots=True)
class Domain:
    """What an argument can take.

    Attributes:
        nonnegative: Whether it must not be negative.
        below: The size that it indexes, or `None`.
    """

    nonnegative: bool = False
    below: int | None = None


def domains(graph: Graph) -> list[Domain]:
    """The domain of each argument of `main`."""
    flow = _Flow(graph)
    nonnegative = flow.nonnegative()
    return [Domain(value in nonnegative, flow.indexed_size(value)) for value in graph.main.block.arguments]


class _Flow:
    """Where values come from and go to, block arguments and results of loops included."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {result: op for op in graph.walk() for result in op.results}
        self.sources: dict[int, list[int]] = {}
        for target, source in _carried(graph.main.block):
            self.sources.setdefault(target, []).append(source)
        self.targets: dict[int, list[int]] = {}
        for target, sources in self.sources.items():
            for source in sources:
                self.targets.setdefault(source, []).append(target)
        self.uses = graph.uses()

    def nonnegative(self) -> set[int]:
        """The values that must not be negative."""
        needed: set[int] = set()
        work = [op.operands[0] for op in self.graph.walk() if facts_of(op.name).of_nonnegative]
        while work:
            value = work.pop()
            if value in needed:
                continue
            needed.add(value)
            work += self.sources.get(value, ())
            op = self.makers.get(value)
            if op is not None:
                work += self._factors(op)
        return needed

    def _factors(self, op: Op) -> tuple[int, ...]:
        """The operands that must not be negative where the result must not."""
        if _is_moved(op) or (op.name == "stablehlo.reduce" and len(op.results) == 1):
            return op.operands[:1]
        if op.name == "stablehlo.select":
            return op.operands[1:]
        if op.name == "stablehlo.maximum" and any(map(self._is_positive, op.operands)):
            return ()
        if facts_of(op.name).joins:
            return op.operands
        if op.name in ("stablehlo.multiply", "stablehlo.divide"):
            factors = Counter(self._product(op))
            return tuple(value for value, times in factors.items() if times % 2 and not self._is_positive(value))
        return ()

    def _product(self, op: Op, depth: int = 3) -> Iterator[int]:
        """The factors of a product of products, down to a depth; a square has one twice."""
        for value in op.operands:
            maker = self.makers.get(value)
            if depth and maker is not None and maker.name == "stablehlo.multiply":
                yield from self._product(maker, depth - 1)
            else:
                yield value

    def _is_positive(self, value: int) -> bool:
        """Whether a value is known not to be negative by what makes it."""
        op = self.makers.get(value)
        while op is not None and _is_moved(op):
            value = op.operands[0]
            op = self.makers.get(value)
        if op is None:
            return False
        if facts_of(op.name).nonnegative or (op.name == "stablehlo.multiply" and op.operands[0] == op.operands[1]):
            return True
        return op.name == "stablehlo.constant" and "-" not in (op.signature.text("value") or "-").split(":")[0].replace(
            "e-", "e"
        )

    def indexed_size(self, argument: int) -> int | None:
        """The smallest size that an integer argument indexes, or `None` where it indexes nothing."""
        if not self.graph.types[argument].dtype.startswith(("i", "ui")):
            return None
        sizes: list[int] = []
        visited, work = set[int](), [argument]
        while work:
            value = work.pop()
            if value in visited:
                continue
            visited.add(value)
            work += self.targets.get(value, ())
            for op, number in self.uses[value]:
                sizes += self._indexed(op, number)
                is_kept = _is_joined(op) or (number == 0 and _is_moved(op))
                if is_kept and self.graph.types[op.results[0]].dtype.startswith(("i", "ui")):
                    work += op.results
        sizes = [size for size in sizes if size > 0]
        return min(sizes) if sizes else None

    def _indexed(self, op: Op, number: int) -> Iterator[int]:
        """The sizes that operand `number` of an op indexes."""
        dims = op.signature.operands[0].dims if op.signature.operands else ()
        if op.name == "stablehlo.gather" and number == 1:
            mapping = (op.signature.get("dimension_numbers") or {}).get("start_index_map", ())
            yield from (dims[dim] for dim in mapping)
        elif op.name == "stablehlo.scatter" and number == len(op.results):
            numbers = op.signature.get("scatter_dimension_numbers") or {}
            yield from (dims[dim] for dim in numbers.get("scatter_dims_to_operand_dims", ()))
        elif op.name == "stablehlo.dynamic_slice" and number:
            yield dims[number - 1] - op.signature.results[0].dims[number - 1] + 1
        elif op.name == "stablehlo.dynamic_update_slice" and number > 1:
            yield dims[number - 2] - op.signature.operands[1].dims[number - 2] + 1
        elif op.name == "stablehlo.compare":
            yield from self._counted(op.operands[1 - number])

    def _counted(self, value: int) -> Iterator[int]:
        """The size of the dimension that a value counts, if it is an iota."""
        op = self.makers.get(value)
        while op is not None and _is_moved(op):
            op = self.makers.get(op.operands[0])
        if op is not None and op.name == "stablehlo.iota":
            yield op.signature.results[0].dims[int(op.signature.get("iota_dimension", 0))]


def _is_moved(op: Op) -> bool:
    """Whether an op's result is its first operand, moved."""
    facts = facts_of(op.name)
    return facts.moves or facts.converts


def _is_joined(op: Op) -> bool:
    """Whether an op's result indexes what its operands index."""
    return facts_of(op.name).joins or op.name in ("stablehlo.clamp", "stablehlo.select")


def _carried(block: Block) -> Iterator[tuple[int, int]]:
    """`(target, source)` of values handed into and out of regions."""
    for op in block.walk():
        for region in op.regions:
            if region.arguments and len(region.arguments) == len(op.operands):
                yield from zip(region.arguments, op.operands, strict=True)
            yielded = region.terminator.operands
            if len(yielded) == len(op.results):
                yield from zip(op.results, yielded, strict=True)
                if op.name == "stablehlo.while":
                    yield from zip(region.arguments, yielded, strict=True)
