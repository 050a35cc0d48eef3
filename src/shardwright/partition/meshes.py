"""Which mesh a program is on."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh

__all__ = ["mesh_of_program"]


def mesh_of_program(graph: Graph) -> Mesh:
    """The mesh of a program: that of its shardings, or the only one there is.

    Raises:
        ShardingError: it has none.
    """
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
