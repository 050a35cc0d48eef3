"""Bodies of manual computations name devices by their ids, per-device programs by their positions in the mesh.

Both are the same unless the mesh has its devices in an order of its own. (XLA, too, reads the numbers in such a body as
partition ids, and `device_ids` of a mesh as the partitions at its positions; the mesh of compact groups gives it axes
only, no order of devices.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_tensor
from shardwright.ir.graph import Graph
from shardwright.ir.opaque import dense_array
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, SYMBOL, symbol_name, unquoted
from shardwright.partition.localize.collectives import replica_groups

__all__ = ["by_position", "group_axes", "over_partitions"]

_COMPACT_MESH = re.compile(rf"mesh = ({SYMBOL})")
_COMPACT_AXIS = re.compile(rf"axis_ref<name = ({STRING})(?:, sub_axis_info = \((\d+)\)(\d+))?>")


def by_position(signature: Signature, source: Graph, partitions: Mesh) -> Signature:
    """A collective over device ids as one over positions in `partitions`; any other op as it is.

    Raises:
        ShardingError: groups in a form that is not known.
    """
    if partitions.device_ids is None or not over_partitions(signature):
        return signature
    if pairs := signature.text("source_target_pairs"):
        signature = signature.replace(source_target_pairs=_renumbered(dense_array(pairs).tolist(), partitions))
    if groups := signature.text("replica_groups"):
        signature = signature.replace(replica_groups=_groups(groups, source, partitions))
    return signature


def over_partitions(signature: Signature) -> bool:
    """Without a channel a collective is between replicas, of which there is one."""
    handle = signature.get("channel_handle", None)
    return isinstance(handle, dict) and handle.get("handle", 0) > 0


def _groups(text: str, source: Graph, partitions: Mesh) -> str:
    if text.startswith(("dense", "#opaque")):
        rows = dense_array(text).tolist()
        return _renumbered(rows if any(rows) else [list(range(partitions.listed))], partitions)
    axes, mesh = group_axes(text, source), _mesh_of(text, source)
    if axes is None or mesh is None or mesh.size != partitions.size:
        raise ShardingError(
            f"groups of devices are not understood: {text[:200]}",
            cause=f"the devices of the program lie in the order {list(partitions.device_ids or ())[:16]}",
            remedy="write them as a dense table of device ids",
        )
    return replica_groups(axes, Mesh(mesh.axes), partitions)


def group_axes(text: str, source: Graph) -> Axes | None:
    """The axes of groups in their compact form, of a mesh of the module; `None` for any other form."""
    mesh = _mesh_of(text, source)
    if mesh is None:
        return None
    axes = [(unquoted(name), pre, size) for name, pre, size in _COMPACT_AXIS.findall(text)]
    return tuple([mesh.axis(name, int(pre or 1), int(size) if size else None) for name, pre, size in axes])


def _mesh_of(text: str, source: Graph) -> Mesh | None:
    match = _COMPACT_MESH.search(text)
    return source.meshes.get(symbol_name(match[1])) if match else None


def _renumbered(rows: Sequence[Sequence[int]], partitions: Mesh) -> str:
    position = {partitions.device_id(position): position for position in range(partitions.listed)}
    return i64_tensor([position.get(device, device) for device in row] for row in rows)
