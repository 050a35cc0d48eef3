"""Who reads what, kept while ops come, go and change: MLIR's use lists."""

from __future__ import annotations

from shardwright.ir.graph import Block, Op

__all__ = ["Uses"]


class Uses:
    """For each value the ops that read it.

    They stand in the order in which they came to read it. MLIR keeps the same order, the newest use in front: so what
    depends on MLIR's order, as the outcome of propagation does, goes through `reversed(uses[value])`.

    Attributes:
        readers: For each value, a list of its readers, an op once per operand, which takes little to make and to hold;
            or, once the value has been asked for or has other readers, what `uses[value]` gives. To be read only.
    """

    __slots__ = ("readers",)

    def __init__(self, block: Block, values: int, regions_first: bool = False) -> None:
        """Find who reads each of so many `values` in `block`, in program order.

        `regions_first` says that what an op's regions read counts as read before what the op reads itself.
        """
        lists: list[list[Op]] = [[] for _ in range(values)]
        for op in block.walk(regions_first):
            for value in op.operands:
                lists[value].append(op)
        self.readers: list[list[Op] | dict[Op, int]] = [*lists]

    def __getitem__(self, value: int) -> dict[Op, int]:
        """The readers of a value, the newest last, each with the number of its operands that are the value."""
        if value >= len(self.readers):
            self.extend(value + 1)
        users = self.readers[value]
        if isinstance(users, list):
            users = self.readers[value] = _counted(users)
        return users

    def count(self, value: int) -> int:
        """How many operands of ops a value is."""
        users = self.readers[value] if value < len(self.readers) else ()
        return sum(users.values()) if isinstance(users, dict) else len(users)

    def is_read(self, op: Op) -> bool:
        """Whether something reads a result of an op."""
        return any(self.readers[value] for value in op.results if value < len(self.readers))

    def add(self, op: Op) -> None:
        """Take up what an op reads, but not what its regions do."""
        for value in op.operands:
            users = self[value]
            users[op] = users.pop(op, 0) + 1  # it becomes the newest

    def remove(self, op: Op) -> None:
        """Forget what an op reads, but not what its regions do."""
        for value in op.operands:
            self[value].pop(op, None)  # it may be several of its operands

    def replace(self, op: Op, old: int, new: int) -> None:
        """Let an op read `new` wherever it reads `old`: it becomes the newest reader of that."""
        if old != new:
            op.operands = tuple([new if value == old else value for value in op.operands])
            times = self[old].pop(op)
            users = self[new]
            users[op] = users.pop(op, 0) + times

    def extend(self, values: int) -> None:
        """Know of so many values."""
        if values > len(self.readers):
            self.readers += [[] for _ in range(values - len(self.readers))]


def _counted(users: list[Op]) -> dict[Op, int]:
    """How often each op is listed."""
    counts: dict[Op, int] = {}
    for op in users:
        counts[op] = counts.get(op, 0) + 1
    return counts
