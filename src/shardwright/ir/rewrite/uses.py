"""Who reads what, kept while ops come, go and change: MLIR's use lists."""

from __future__ import annotations

from shardwright.ir.graph import Block, Op

__all__ = ["Uses"]


class Uses:
    """For each value the ops that read it.

    They stand in the order in which they came to read it. MLIR keeps the same order, the newest use in front: so what
    depends on MLIR's order, as the outcome of propagation does, goes through `reversed(uses[value])`.

    Attributes:
        readers: For each value, op → how many of its operands are the value. To be read only.
    """

    __slots__ = ("readers",)

    def __init__(self, block: Block, values: int, regions_first: bool = False) -> None:
        """Find who reads each of so many `values` in `block`, in program order.

        `regions_first` says that what an op's regions read counts as read before what the op reads itself.
        """
        self.readers: list[dict[Op, int]] = [{} for _ in range(values)]
        readers = self.readers
        for op in block.walk(regions_first):
            for value in op.operands:
                users = readers[value]
                users[op] = users.get(op, 0) + 1

    def __getitem__(self, value: int) -> dict[Op, int]:
        """The readers of a value, the newest last, each with the number of its operands that are the value."""
        return self.readers[value] if value < len(self.readers) else {}

    def count(self, value: int) -> int:
        """How many operands of ops a value is."""
        return sum(self[value].values())

    def is_read(self, op: Op) -> bool:
        """Whether something reads a result of an op."""
        return any(self[value] for value in op.results)

    def add(self, op: Op) -> None:
        """Take up what an op reads, but not what its regions do."""
        for value in op.operands:
            self._add(op, value, 1)

    def remove(self, op: Op) -> None:
        """Forget what an op reads, but not what its regions do."""
        for value in op.operands:
            self.readers[value].pop(op, None)  # it may be several of its operands

    def replace(self, op: Op, old: int, new: int) -> None:
        """Let an op read `new` wherever it reads `old`: it becomes the newest reader of that."""
        if old != new:
            op.operands = tuple([new if value == old else value for value in op.operands])
            self._add(op, new, self.readers[old].pop(op))

    def extend(self, values: int) -> None:
        """Know of so many values."""
        self.readers += [{} for _ in range(values - len(self.readers))]

    def _add(self, op: Op, value: int, times: int) -> None:
        self.extend(value + 1)
        users = self.readers[value]
        users[op] = users.pop(op, 0) + times
