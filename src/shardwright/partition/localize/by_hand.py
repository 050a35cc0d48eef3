"""Collectives of a program for one device that XLA does not do: devices exchange what they hold, and each does it.

XLA combines elements by sum, product, largest and smallest, and booleans by `and` and `or`. For anything else an
all_reduce is an all_gather of what all devices of a group hold, a reduce_scatter an all_to_all, and each combines that:

    all_reduce(x) by f ──► s = all_gather(x), in front; f(s[0::2], s[1::2]), until one is left

XLA for CPUs has no collective_broadcast: of what is gathered each takes the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array, i64_tensor, integer
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Graph
from shardwright.ir.opaque import dense_array
from shardwright.ir.signature import Body, Signature
from shardwright.partition.localize.renumber import group_axes, over_partitions

__all__ = ["is_by_hand", "written_by_hand"]

_BROADCAST = "stablehlo.collective_broadcast"
_REDUCING = frozenset({"stablehlo.all_reduce", "stablehlo.reduce_scatter"})
_GLOBAL = "use_global_device_ids"


def is_by_hand(signature: Signature) -> bool:
    """Whether XLA has no such collective."""
    if signature.name not in _REDUCING:
        return signature.name == _BROADCAST
    (body,), types = signature.bodies, {type.dtype for type in (*signature.operands, *signature.results)}
    if types != {type.dtype for type in body.arguments}:  # sums in wider types
        return False
    return body.reduction is None or any(body.reduction in combined_by_hand(dtype) for dtype in types)


def written_by_hand(
    builder: Builder, signature: Signature, operands: Sequence[int], channel: Callable[[], str]
) -> tuple[int, ...]:
    """What such a collective makes of `operands`, written with others that have a `channel` each.

    Raises:
        ShardingError: its groups are not of one size, or leave devices out.
    """
    count, groups = _groups(signature, builder.graph)
    return tuple([_written(builder, signature, value, count, groups, channel) for value in operands])


def _written(
    builder: Builder, signature: Signature, value: int, count: int, groups: str, channel: Callable[[], str]
) -> int:
    type = builder.type(value)
    if count == 1 or not type.elements:
        return value
    front = builder.reshape(value, (1, *type.dims))
    attributes = {"replica_groups": groups, "channel_handle": channel()}
    if signature.name == "stablehlo.reduce_scatter":
        dim = signature.get("scatter_dimension") + 1
        shape = [count, *type.dims]
        shape[dim] //= count
        attributes |= {
            "split_dimension": integer(dim),
            "concat_dimension": integer(0),
            "split_count": integer(count),
        }
        stacked = builder.emit("all_to_all", (front,), type.with_shape(tuple(shape)), attributes)
    else:
        attributes |= {"all_gather_dim": integer(0), _GLOBAL: "unit"}
        stacked = builder.emit("all_gather", (front,), type.with_shape((count, *type.dims)), attributes)
    if signature.name == _BROADCAST:
        first = _slice(builder, stacked, 0, 1)
    else:
        first = _combined(builder, stacked, *signature.bodies)
    return builder.reshape(first, builder.type(first).dims[1:])


def _combined(builder: Builder, stacked: int, body: Body) -> int:
    """What lies along the first dimension combined, neighbours first: one is left."""
    count, *shape = builder.type(stacked).dims
    while count > 1:
        even = count // 2 * 2
        pair = [_slice(builder, stacked, start, even, 2) for start in (0, 1)]
        type = builder.type(pair[0])
        dimensions = {"dimensions": i64_array(range(type.rank))}
        both = builder.emit("map", pair, type, dimensions, (body,))
        count, rest = (count + 1) // 2, count - even
        if rest:
            last = _slice(builder, stacked, even, even + 1)
            joined = type.with_shape((count, *shape))
            both = builder.emit("concatenate", (both, last), joined, {"dimension": integer(0)})
        stacked = both
    return stacked


def _slice(builder: Builder, value: int, start: int, end: int, stride: int = 1) -> int:
    """From `start` to `end` along the first dimension."""
    type = builder.type(value)
    _, *rest = type.dims
    attributes = {
        "start_indices": i64_array([start, *(0 for _ in rest)]),
        "limit_indices": i64_array([end, *rest]),
        "strides": i64_array([stride, *(1 for _ in rest)]),
    }
    shape = (-(-(end - start) // stride), *rest)
    return builder.emit("slice", (value,), type.with_shape(shape), attributes)


def _groups(signature: Signature, graph: Graph) -> tuple[int, str]:
    """How many devices each group has, and the groups as text."""
    if not over_partitions(signature):  # between replicas, of which there is one
        return 1, ""
    text = signature.text("replica_groups") or ""
    axes = group_axes(text, graph)
    if axes is not None:
        return axes_size(axes), text
    devices = graph.mesh.listed
    table = [[device for device in row if device >= 0] for row in dense_array(text).tolist()]
    if not any(table) or (signature.name in _REDUCING and signature.text(_GLOBAL) is None):
        table = [[*range(devices)]]  # all partitions of each replica that is named
    if len({len(row) for row in table}) > 1 or sorted(device for row in table for device in row) != [*range(devices)]:
        raise ShardingError(
            f"{signature.name} is between groups of different size, or leaves devices out",
            op=signature.label,
            cause="XLA has no such collective on every platform; it is written as an exchange among all of a group",
            remedy=f"name each of the {devices} devices once, in groups of one size",
        )
    return len(table[0]), i64_tensor(table)
