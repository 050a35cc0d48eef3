"""Which ops of a block compute on values of local shape, and belong to one manual computation.

From `@SPMDFullToShardShape` on, whatever reads a value of local shape is local too, until `@SPMDShardToFullShape`; ops
that read from one another belong together. Constants and the like that only they read join them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.walk import walk
from shardwright.notation.hlo.mesh import Placed
from shardwright.notation.hlo.sites import Fail

__all__ = ["FORM", "FULL_TO_SHARD", "SHARD_TO_FULL", "Component", "Components", "Crossing"]

FULL_TO_SHARD = "SPMDFullToShardShape"
SHARD_TO_FULL = "SPMDShardToFullShape"

_REPEATED = frozenset({"stablehlo.constant", "stablehlo.iota"})
FORM = "expected JAX's form: @Sharding, @SPMDFullToShardShape, local ops or a call, @SPMDShardToFullShape"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A custom call at which a value changes between global and local shape."""

    op: Any
    target: str
    placed: Placed


@dataclass(slots=True)
class Component:
    """Ops that become the body of one manual computation, numbered by their place in the block."""

    entries: list[tuple[int, Crossing]] = field(default_factory=list)
    exits: list[tuple[int, Crossing]] = field(default_factory=list)
    members: set[int] = field(default_factory=set)


class Components:
    """The manual computations of one block.

    Attributes:
        ops: The ops of the block.
        results: The place of the op that has a result. (Ops are no keys: their hash changes with their operands.)
        joined: What belongs together.
    """

    def __init__(
        self, block: Any, crossings: Sequence[Crossing], entries: Container[Any], fail: Callable[[Any], Fail]
    ) -> None:
        """Look through `block`.

        Arguments:
            block: The block.
            crossings: Its custom calls at which shapes change.
            entries: What stands for `@Sharding` calls.
            fail: Makes errors at an op.

        Raises:
            ShardingError: ops in another form than JAX's.
        """
        self.block = block
        self.fail = fail
        self.entries = entries
        self.ops = [view.operation for view in block.operations]
        self.results = {result: number for number, op in enumerate(self.ops) for result in op.results}
        self.crossings = {crossing.op.results[0]: crossing for crossing in crossings}
        self.begun: list[Component] = []
        self.local: dict[Any, int] = {}
        self.parents: list[int] = []
        self._find()
        self.joined = self._joined()
        for component in self.joined:
            self._pull_in(component)

    def _joined(self) -> list[Component]:
        by_root: dict[int, Component] = {}
        for number, component in enumerate(self.begun):
            whole = by_root.setdefault(self._root(number), Component())
            whole.entries += component.entries
            whole.exits += component.exits
            whole.members |= component.members
        return list(by_root.values())

    def _find(self) -> None:
        sources = {self._source(c.op) for c in self.crossings.values() if c.target == SHARD_TO_FULL}
        for number, op in enumerate(self.ops):
            crossing = next((self.crossings[r] for r in op.results if r in self.crossings), None)
            known = self._known(op)
            if crossing is not None and crossing.target == FULL_TO_SHARD:
                if known:
                    raise self.fail(op)("a manual computation begins amid another", FORM, "put the inner in a function")
                self._begin(op).entries.append((number, crossing))
            elif crossing is not None:
                if not known:
                    raise self.fail(op)(f"@{SHARD_TO_FULL} is given a value of global shape", FORM, "leave it out")
                self.begun[known[0]].exits.append((number, crossing))
            elif known or any(result in sources for result in op.results):
                component = self._begin(op) if not known else self.begun[known[0]]
                component.members.add(number)
                self._join(op, known)
        last = self.ops[-1]
        if self._known(last):
            raise self.fail(last)(
                "a value of local shape is returned", FORM, f"bring it to its full shape by @{SHARD_TO_FULL}"
            )

    def _known(self, op: Any) -> list[int]:
        """The components whose values `op` reads, also within its regions."""
        components = [self.local[value] for value in op.operands if value in self.local]
        if len(op.regions) and self.local:

            def visit(inner: Any) -> Any:
                components.extend(self.local[value] for value in inner.operands if value in self.local)
                return ir.WalkResult.ADVANCE

            walk(op, visit)
        return components

    def _begin(self, op: Any) -> Component:
        self.begun.append(Component())
        self.parents.append(len(self.parents))
        for result in op.results:
            self.local[result] = len(self.parents) - 1
        return self.begun[-1]

    def _join(self, op: Any, known: list[int]) -> None:
        if not known:
            return
        for other in known[1:]:
            self.parents[self._root(other)] = self._root(known[0])
        for result in op.results:
            self.local[result] = known[0]

    def _root(self, number: int) -> int:
        while self.parents[number] != number:
            self.parents[number] = self.parents[self.parents[number]]
            number = self.parents[number]
        return number

    def _source(self, op: Any) -> Any:
        """The value that leaves, as it was before `@Sharding`."""
        value = op.operands[0]
        while value in self.entries and not isinstance(value.owner.operation.operands[0].owner, ir.Block):
            value = value.owner.operation.operands[0]
        return value

    def _pull_in(self, component: Component) -> None:
        """Ops that only local ops read become local; constants that others read too are repeated."""
        waiting = sorted(component.members)
        while waiting:
            number = waiting.pop()
            for value in self.read_from_outside(self.ops[number]):
                if value in self.local:
                    continue
                made = self.results.get(value)
                if made is None:
                    raise self._captured(self.ops[number])
                if made in component.members:
                    continue
                if self._only_read_by(self.ops[made], component):
                    component.members.add(made)
                    waiting.append(made)
                    waiting.sort()
                elif self.ops[made].name not in _REPEATED:
                    raise self._captured(self.ops[number])

    def _captured(self, op: Any) -> ShardingError:
        return self.fail(op)(
            "a value of global shape is read among values of local shape", FORM, f"bring it in by @{FULL_TO_SHARD}"
        )

    def read_from_outside(self, op: Any) -> list[Any]:
        """Operands of `op` and values of the block that its regions read."""
        if not len(op.regions):
            return list(op.operands)
        inside: set[Any] = set()
        read: list[Any] = []

        def visit(inner: Any) -> Any:
            read.extend(inner.operands)
            inside.update(inner.results)
            for region in inner.regions:
                for block in region.blocks:
                    inside.update(block.arguments)
            return ir.WalkResult.ADVANCE

        walk(op, visit)
        return [value for value in read if value not in inside]

    def _only_read_by(self, op: Any, component: Component) -> bool:
        return all(self._at(use.owner) in component.members for result in op.results for use in result.uses)

    def _at(self, op: Any) -> int:
        """The number of the op of this block that `op` is or stands in."""
        ancestor = op.operation
        while ancestor.block != self.block:
            ancestor = ancestor.parent.operation
        if len(ancestor.results):
            return self.results[ancestor.results[0]]
        return next(number for number, one in enumerate(self.ops) if one == ancestor)
