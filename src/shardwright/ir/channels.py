"""Collectives that name devices and have no channel.

Without a channel the groups of StableHLO count replicas, and a program of ours has one: groups of several can only mean
devices. They are written so by hand and in public texts, and XLA refuses them. Each gets a channel when it is read.
Where programs become one, channels of the same number are told apart.

Source: the StableHLO specification, `all_gather`: the strategies of process groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from shardwright.ir.graph import Graph, Op
from shardwright.ir.opaque import dense_array
from shardwright.ir.ops import OWN_COLLECTIVES
from shardwright.ir.signature import Signature

__all__ = ["give_channels", "tell_channels_apart"]

_WITH_IDS = frozenset({"stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.reduce_scatter"})
"""Those whose groups are ids of devices, with a channel, only if another attribute says so."""


def give_channels(graph: Graph) -> None:
    """Give each such collective of a program a channel of its own."""
    ops = _collectives(graph)
    handles = _free(ops)
    for op in ops:
        if _handle(op.signature) <= 0 and _names_devices(op.signature):
            op.signature = _with_channel(op.signature, handles)


def tell_channels_apart(graph: Graph) -> None:
    """Give each such collective that has the channel of one before it another."""
    ops = _collectives(graph)
    handles, taken = _free(ops), set[int]()
    for op in ops:
        handle = _handle(op.signature)
        if handle in taken:
            op.signature = op.signature.replace(channel_handle=_channel(next(handles)))
        elif handle > 0:
            taken.add(handle)


def _collectives(graph: Graph) -> list[Op]:
    return [op for op in graph.walk() if op.name in OWN_COLLECTIVES]


def _free(ops: Sequence[Op]) -> Iterator[int]:
    """Numbers of channels that none of these has."""
    return count(1 + max((_handle(op.signature) for op in ops), default=0))


def _with_channel(signature: Signature, handles: Iterator[int]) -> Signature:
    signature = signature.replace(channel_handle=_channel(next(handles)))
    return signature.replace(use_global_device_ids="unit") if signature.name in _WITH_IDS else signature


def _channel(handle: int) -> str:
    return f"#stablehlo.channel_handle<handle = {handle}, type = 1>"


def _handle(signature: Signature) -> int:
    handle = signature.get("channel_handle", None)
    return int(handle.get("handle", 0)) if isinstance(handle, dict) else 0


def _names_devices(signature: Signature) -> bool:
    """Whether it names more than the one replica that there is."""
    rows = signature.text("replica_groups") or signature.text("source_target_pairs") or ""
    return "mesh_axes" in rows or (rows.startswith("dense") and bool((dense_array(rows) > 0).any()))
