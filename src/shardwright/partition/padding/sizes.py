"""How large the dimensions of a program become where they do not divide by their shards.

Dimensions that go along with each other through ops and round loops get one size, so that nothing is padded anew
between them: it is chosen for all of them, as the one of which devices hold least in all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, axes_size, truncate_by_divisor
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.padding.ops import paddable
from shardwright.routes import ceil_div
from shardwright.sharding import TensorSharding

__all__ = ["exact_shape", "has_uneven", "is_uneven", "next_multiple", "padded_shapes", "program_values"]

Place = tuple[int, int]
"""A value and one of its dimensions."""


def is_uneven(sharding: TensorSharding | None, type: TensorType) -> bool:
    """Whether a sharding does not divide the tensor that it is of."""
    return sharding is not None and type.is_tensor and bool(sharding.mesh.axes) and not sharding.divides(type.dims)


def has_uneven(graph: Graph) -> bool:
    """Whether some sharding of a program does not divide its tensor."""
    pairs = list(zip(graph.shardings, graph.types, strict=True))
    different = dict(zip(zip(map(id, graph.shardings), map(id, graph.types), strict=True), pairs, strict=True))
    return any(is_uneven(*pair) for pair in different.values())


def exact_shape(sharding: TensorSharding, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The least shape that a sharding divides and that holds `dims`: shards as they are, the last ones filled up."""
    parts = map(axes_size, sharding.axes)
    return tuple(map(next_multiple, dims, parts))


def program_values(graph: Graph) -> Iterator[int]:
    """The arguments and results of all blocks and ops, but for the bodies of manual computations."""
    yield from graph.main.block.arguments
    for op in graph.main.block.walk(opaque=(MANUAL,)):
        yield from op.results
        if op.name != MANUAL:
            for block in op.regions:
                yield from block.arguments


def padded_shapes(graph: Graph) -> dict[int, tuple[int, ...]]:
    """The shape of every value that is padded; of a program whose shardings all divide, none."""
    together = _Together()
    for op in graph.main.block.walk(opaque=(MANUAL,)):
        for places in _alike(graph, op):
            together.join(places)
    sizes = _sizes(graph, together)
    shapes: dict[int, tuple[int, ...]] = {}
    for value in program_values(graph):
        sharding, dims = graph.shardings[value], graph.types[value].dims
        if sharding is None or not any(sharding.axes):
            continue
        split = [sizes.get(together.first((value, dim))) if axes else None for dim, axes in enumerate(sharding.axes)]
        if any(split):
            shapes[value] = tuple([new or size for new, size in zip(split, dims, strict=True)])
    return shapes


class _Together:
    """Places that are to have one size: union by find."""

    def __init__(self) -> None:
        self._above: dict[Place, Place] = {}

    def first(self, place: Place) -> Place:
        """The place that stands for all that are together with this one."""
        root = place
        while (above := self._above.get(root, root)) != root:
            root = above
        while place != root:
            self._above[place], place = root, self._above[place]
        return root

    def join(self, places: Sequence[Place]) -> None:
        """Say that these are to have one size."""
        for place in places[1:]:
            one, other = self.first(places[0]), self.first(place)
            if one != other:
                self._above[other] = one


def _alike(graph: Graph, op: Op) -> Iterator[Sequence[Place]]:
    """Sets of places that an op has in common."""
    if op.name == "stablehlo.optimization_barrier":
        yield from _each_dim(graph, op.operands, op.results)
    elif op.name == "stablehlo.while":
        condition, body = op.regions
        rows = (op.operands, condition.arguments, body.arguments, body.terminator.operands)
        for values in rows:
            yield from _each_dim(graph, op.results, values)
    elif op.name in ("stablehlo.case", "stablehlo.if"):
        for block in op.regions:
            yield from _each_dim(graph, op.results, block.terminator.operands)
    elif op.name == "sdy.named_computation":
        (block,) = op.regions
        yield from _each_dim(graph, op.operands, block.arguments)
        yield from _each_dim(graph, op.results, block.terminator.operands)
    elif not op.regions and (known := paddable(op.signature)) is not None:
        rule, factors = known
        tensors = zip((*op.operands, *op.results), (*rule.operands, *rule.results), strict=True)
        places: dict[int, list[Place]] = {factor: [] for factor in factors}
        for value, mapping in tensors:
            for dim, of in enumerate(mapping):
                if of and of[0] in places:
                    places[of[0]].append((value, dim))
        yield from places.values()


def _each_dim(graph: Graph, left: Sequence[int], right: Sequence[int]) -> Iterator[Sequence[Place]]:
    for one, other in zip(left, right, strict=True):
        for dim in range(graph.types[one].rank):
            yield (one, dim), (other, dim)


@dataclass(frozen=True, slots=True)
class _Member:
    """A dimension that is split.

    Attributes:
        axes: By which axes.
        bytes: Bytes of one index of it, in all.
        fixed: Whether a caller has its shards, which are those of the least size that its axes divide.
    """

    axes: Axes
    bytes: int
    fixed: bool = False

    def held(self, size: int, own: int) -> float:
        """What a device holds if the dimension, which is `own` in size, becomes `size`."""
        if self.fixed and size not in (own, next_multiple(own, axes_size(self.axes))):
            return own * self.bytes
        return size // axes_size(truncate_by_divisor(self.axes, size)) * self.bytes


def _sizes(graph: Graph, together: _Together) -> dict[Place, int]:
    """The size of all places that are together, by the one that stands for them, where it is another than theirs."""
    members: defaultdict[Place, list[_Member]] = defaultdict(list)
    uneven: dict[Place, int] = {}
    main = graph.main
    arguments = frozenset(main.block.arguments)
    layouts = [(value, graph.shardings[value], value in arguments) for value in program_values(graph)]
    layouts += [(v, s, True) for v, s in zip(main.block.terminator.operands, main.result_shardings, strict=True)]
    for value, sharding, outside in layouts:
        type = graph.types[value]
        if sharding is None or not type.elements or not bit_width(type.dtype):
            continue
        for dim, axes in enumerate(sharding.axes):
            size, parts = type.dims[dim], axes_size(axes)
            if parts > 1:
                place = together.first((value, dim))
                members[place].append(_Member(axes, type.bytes // size, outside and size % parts > 0))
                if size % parts:
                    uneven[place] = size
    best = {place: _best(size, members[place]) for place, size in uneven.items()}
    return {place: size for place, size in best.items() if size != uneven[place]}


def _best(size: int, members: Sequence[_Member]) -> int:
    """The size of which devices hold least; among such, the smallest one."""
    counts = {axes_size(member.axes) for member in members}
    candidates = {size, *(next_multiple(size, count) for count in (*counts, math.lcm(*counts)))}
    return min(sorted(candidates), key=lambda new: sum(member.held(new, size) for member in members))


def next_multiple(size: int, count: int) -> int:
    """The least multiple of `count` that is not below `size`."""
    return ceil_div(size, count) * count
