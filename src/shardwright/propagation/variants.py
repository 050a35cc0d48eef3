"""One program propagated again and again, each time with other shardings of some of its arguments.

What comes before and after propagation hardly depends on how arguments lie. So a program is imported once, and
propagated again only where something differs from the first time; of what comes after only constants that are merged
tell, which is told apart, so that all that end in the same ops share one block. What comes out is what `propagate`
gives, value by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.types import TensorType
from shardwright.memo import once
from shardwright.mesh import Mesh
from shardwright.propagation.effects import remove_dead
from shardwright.propagation.engine.propagator import Propagator
from shardwright.propagation.engine.replay import Replay
from shardwright.propagation.method import Method
from shardwright.propagation.order import Places, restore
from shardwright.propagation.pipeline import prepared
from shardwright.propagation.steps.boundary import outermost
from shardwright.propagation.steps.constants import is_merged
from shardwright.propagation.working import CONSTRAINT
from shardwright.sharding import TensorSharding, replicated
from shardwright.stage import Stage

__all__ = ["Variants", "has_priorities", "variants_of"]


def variants_of(graph: Graph, how: Method) -> Variants | None:
    """What propagates a program with other shardings of its arguments; `None` of one for which that is not known.

    That is one without loops and branches, without collectives, sharding groups and priorities, and on one mesh.

    Arguments:
        graph: The program, with the shardings that users gave.
        how: How it is propagated, ops in the order of their use.
    """
    if how.by_cost or len(graph.meshes) != 1 or any(op.regions for op in graph.main.block.ops):
        return None
    (mesh,) = graph.meshes.values()
    if not mesh.axes or mesh.is_maximal or any(size == 1 for _, size in mesh.axes):
        return None
    if any(one.mesh != mesh or has_priorities(one) for one in graph.different_shardings):
        return None
    variants = Variants(graph, how, mesh)
    return variants if variants.is_straight else None


def has_priorities(sharding: TensorSharding) -> bool:
    """Whether a sharding is to be propagated in several rounds."""
    return any(dim.priority is not None for dim in sharding.dims)


@dataclass(frozen=True, slots=True, eq=False)
class _Mergeable:
    """A constant, or a broadcast of a scalar, of which one may stand for others."""

    op: Op
    result: int
    signature: int


class Variants:
    """A program that is imported, with what propagates it from there.

    Attributes:
        is_straight: Whether nothing in it is told of in more ways than by the shardings of its values.
    """

    def __init__(self, graph: Graph, how: Method, mesh: Mesh) -> None:
        """Import a program on a mesh; the graph given stays as it is."""
        self.graph = graph
        self.mesh = mesh
        self.working, self.places, self.propagator = prepared(graph, how)
        self.is_straight = self._is_straight()
        self.types = self.working.types
        self._arguments = frozenset(self.working.block.arguments)
        self._returned = [self.types[value] for value in self.working.block.terminator.operands]
        self._signatures: dict[object, int] = {}
        self._mergeables = self._found_mergeables()
        self._merging = frozenset([one.result for one in self._mergeables])
        self._blocks: dict[tuple[tuple[int, int], ...], Block] = {}
        self._of_lying: dict[frozenset[tuple[int, int]], Block] = {}
        self._ops: dict[tuple[Op, tuple[int, ...]], Op] = {}
        self._layouts = _Layouts(self.propagator, mesh)

    @once
    def _replay(self) -> Replay:
        return Replay(self.propagator.worklist, self.propagator.results, self.propagator.rounds())

    @once
    def _first(self) -> tuple[list[TensorSharding | None], list[TensorSharding | None]]:
        """How values lie, and results, with the shardings that were given."""
        layouts, types, end = self._layouts, self.types, self._replay.end
        values = layouts.of_values(end[: len(types)], types)
        for value in self.working.block.arguments:
            values[value] = layouts.of_argument(end[value], types[value])
        return values, [layouts.of_result(end[len(types) + number], type) for number, type in enumerate(self._returned)]

    def _is_straight(self) -> bool:
        """Whether no data-flow edges, groups or collectives are in it, and nothing is dead."""
        working = self.working
        is_plain = not working.edges and not working.groups and working.special.keys() <= {CONSTRAINT}
        return is_plain and not any(self.propagator.worklist.dead)

    def _found_mergeables(self) -> list[_Mergeable]:
        number = self._signatures
        return [
            _Mergeable(op, op.results[0], number.setdefault(op.signature, len(number)))
            for op in self.working.block.ops
            if is_merged(op.signature)
        ]

    def may_change(self, value: int) -> bool:
        """Whether all that the sharding of an argument says is how it is propagated, whatever else constrains it."""
        uses = self.working.uses
        return self.graph.shardings[value] is not None or all(op.name != CONSTRAINT for op in uses[value])

    def propagated(self, shardings: Mapping[int, TensorSharding]) -> Graph:
        """The program propagated with these shardings of arguments, those of others as they were given.

        Graphs that come out share their ops, which are not to be changed.

        Arguments:
            shardings: Arguments, with shardings without priorities.
        """
        number_of, count = self.propagator.numbers.number, len(self.types)
        others = self._replay.again({value: number_of(sharding) for value, sharding in shardings.items()})
        made = self.graph.skeleton(Stage.PROPAGATED)
        made.types, made.main.block = self.types, self._block(others)
        values, results = map(list, self._first)
        for value, number in others.items():
            if value >= count:
                results[value - count] = self._layouts.of_result(number, self._returned[value - count])
            elif value in self._arguments:
                values[value] = self._layouts.of_argument(number, self.types[value])
            else:
                values[value] = self._layouts.of_value(number, self.types[value])
        made.shardings, made.main.result_shardings = values, results
        return made

    def _block(self, others: Mapping[int, int]) -> Block:
        """The ops of a program of which these values lie otherwise: constants that lie alike are one."""
        lying = frozenset([(value, others[value]) for value in self._merging & others.keys()])
        block = self._of_lying.get(lying)
        if block is None:
            state = list(self._replay.end)
            for value, number in lying:
                state[value] = number
            block = self._of_lying[lying] = self._found_block(state)
        return block

    def _found_block(self, state: list[int]) -> Block:
        replaced: dict[int, int] = {}
        seen: dict[object, int] = {}
        for one in self._mergeables:
            operands = one.op.operands
            if operands and replaced:
                operands = tuple([replaced.get(value, value) for value in operands])
            first = seen.setdefault((one.signature, state[one.result], operands), one.result)
            if first != one.result:
                replaced[one.result] = first
        key = tuple(replaced.items())
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = self._merged(replaced)
        return block

    def _merged(self, replaced: dict[int, int]) -> Block:
        """The ops where these values stand for others."""
        block = self.working.block
        left = [op for op in block.ops if not op.results or op.results[0] not in replaced]
        kept = {op: self._reading(op, replaced) for op in left}
        places: Places = {made: self.places[op] for op, made in kept.items() if op in self.places}
        merged = Block(block.arguments, list(kept.values()))
        remove_dead(merged, len(self.types))
        restore(merged, places)
        return merged

    def _reading(self, op: Op, replaced: dict[int, int]) -> Op:
        """An op that reads what stands for what it reads; constraints are reshards from here on."""
        operands = tuple([replaced.get(value, value) for value in op.operands])
        key = op, operands
        made = self._ops.get(key)
        if made is None:
            signature = op.signature
            if signature.name == CONSTRAINT:
                signature = replace(signature, name="sdy.reshard")
            made = self._ops[key] = Op(signature, operands, op.results, (), op.location)
        return made


class _Layouts:
    """The closed shardings that numbers stand for once all is propagated, each one object."""

    def __init__(self, propagator: Propagator, mesh: Mesh) -> None:
        self.shardings = propagator.numbers.shardings
        self.mesh = mesh
        self.closed: list[TensorSharding | None] = [None]
        self.bare: dict[int, TensorSharding] = {}
        self.outer: dict[tuple[int, int], TensorSharding | None] = {}

    def of_values(self, state: list[int], types: list[TensorType]) -> list[TensorSharding | None]:
        """How values lie inside of the program."""
        return list(map(self.of_value, state, types))

    def of_value(self, number: int, type: TensorType) -> TensorSharding | None:
        """How a value lies inside of the program."""
        closed, shardings = self.closed, self.shardings
        if number >= len(closed):
            closed += [one if one is None else one.closed() for one in shardings[len(closed) :]]
        return closed[number] if number else self._bare(type)

    def of_argument(self, number: int, type: TensorType) -> TensorSharding | None:
        """How a caller sees an argument."""
        key = number, id(type)
        if key not in self.outer:
            outer = outermost(self.shardings[number], type)
            self.outer[key] = self._bare(type) if outer is None else outer.closed()
        return self.outer[key]

    def of_result(self, number: int, type: TensorType) -> TensorSharding | None:
        """How a caller sees a result."""
        return self.of_argument(number, type) if number or type.is_tensor else None

    def _bare(self, type: TensorType) -> TensorSharding | None:
        """How a value lies of which nothing is said."""
        if type.shape is None:
            return None
        rank = len(type.shape)
        return self.bare.get(rank) or self.bare.setdefault(rank, replicated(self.mesh, rank))
