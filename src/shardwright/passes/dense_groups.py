"""Replica groups of a per-device program, spelt out device by device.

`#stablehlo.replica_group_mesh_axes<…>`, which names axes of a mesh, does not grow with the devices, and newer tools
read it; a list of ids is what all of them do.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.analysis.groups import replica_groups
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.words import counted

__all__ = ["with_dense_groups"]

_GROUPS = "replica_groups"
_MOST_DEVICES = 65_536
"""What a list of ids may name: more are a megabyte for each collective."""


def with_dense_groups(graph: Graph) -> Graph:
    """Spell the groups of all collectives out; the graph is changed, and given back.

    Raises:
        ShardingError: groups of so many devices that nobody wants to read them.
    """
    done: dict[Signature, Signature] = {}
    for op in graph.walk():
        if "mesh_axes" in (op.signature.text(_GROUPS) or ""):
            if op.signature not in done:
                done[op.signature] = _spelt_out(op.signature, graph)
            op.signature = done[op.signature]
    return graph


def _spelt_out(signature: Signature, graph: Graph) -> Signature:
    groups = replica_groups(signature, graph.meshes, 0)
    if groups.mesh is not None and groups.mesh.size > _MOST_DEVICES:
        raise ShardingError(
            f"the replica groups of {counted(groups.mesh.size, 'device')} are not spelt out",
            op=signature.name,
            cause=f"of more than {_MOST_DEVICES} they take megabytes for each collective",
            remedy="say enable-rgv3=true, for groups that name axes of the mesh",
        )
    rows = [row.tolist() for row in groups.rows]
    text = f"dense<{rows}> : tensor<{len(rows)}x{len(rows[0])}xi64>"
    attributes = tuple([(name, text if name == _GROUPS else value) for name, value in signature.attributes])
    return replace(signature, attributes=attributes)
