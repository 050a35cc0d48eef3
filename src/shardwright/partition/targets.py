"""The layouts that a propagated program asks for: its shardings, cut to what divides each tensor."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Targets"]


class Targets:
    """What a graph asks for.

    Attributes:
        mesh: The mesh of the module.
        results: The layouts in which the program returns.
        contributions: Values that are returned as contributions and in no other way, and how they lie then.
    """

    def __init__(self, graph: Graph) -> None:
        """Read the shardings of `graph`; ShardingError where it has no mesh."""
        self.graph = graph
        self.mesh = _mesh(graph)
        self.results = tuple(map(self._returned, graph.main.block.terminator.operands, graph.main.result_shardings))
        self.contributions = _contributions(graph)

    def of(self, value: int) -> TensorSharding | None:
        """The layout that propagation gave a value; `None` for what is no tensor."""
        type = self.graph.types[value]
        return self._even(self.graph.shardings[value], type) if type.is_tensor else None

    def all(self, values: tuple[int, ...]) -> tuple[TensorSharding | None, ...]:
        """The layouts that propagation gave these values."""
        return tuple([self.of(value) for value in values])

    def argument(self, value: int) -> TensorSharding | None:
        """The layout in which an argument comes: it may be partial."""
        sharding, layout = self.graph.shardings[value], self.of(value)
        return _with_contributions(layout, sharding) if layout and sharding else layout

    def _returned(self, value: int, sharding: TensorSharding | None) -> TensorSharding | None:
        if not sharding:
            return self.of(value)
        return _with_contributions(self._even(sharding, self.graph.types[value]), sharding)

    def _even(self, sharding: TensorSharding | None, type: TensorType) -> TensorSharding:
        """What is to be on one device is on all: each runs every op."""
        return _even(replicated(self.mesh, type.rank) if sharding is None or not sharding.mesh.axes else sharding, type)


@memoize
def _even(sharding: TensorSharding, type: TensorType) -> TensorSharding:
    """The layout that `sharding` asks for, cut to what divides, and reduced.

    That a value may be unreduced is no wish for contributions to be made: what is partial stays so until it is read.
    """
    layout = sharding.closed().evenly_dividing(type.dims)
    return layout.with_axes(layout.axes) if layout.partial else layout


def _with_contributions(layout: TensorSharding, stated: TensorSharding) -> TensorSharding:
    """A layout with the contributions that are stated where the program begins or ends: its caller counts on them."""
    return layout.with_axes(layout.axes, stated.partial).closed() if stated.partial else layout


def _contributions(graph: Graph) -> dict[int, TensorSharding]:
    returned = graph.main.block.terminator.operands
    return {
        value: _with_contributions(_even(sharding, graph.types[value]), sharding)
        for value, sharding in zip(returned, graph.main.result_shardings, strict=True)
        if sharding is not None and sharding.partial and returned.count(value) == 1
    }


def _mesh(graph: Graph) -> Mesh:
    """The mesh of the module: that of its shardings, or the only one there is."""
    for sharding in graph.shardings:
        if sharding is not None and sharding.mesh.axes:
            return sharding.mesh
    for mesh in graph.meshes.values():
        if mesh.axes:
            return mesh
    raise ShardingError(
        "the program has no device mesh",
        cause="there is no sdy.mesh in the module",
        remedy="give one: --mesh data=2,model=4, or program.shard(sw.Mesh(data=2, model=4), …)",
    )
