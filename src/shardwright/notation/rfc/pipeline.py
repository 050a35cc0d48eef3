"""Clusters between which a `mesh.collective_permute` leads: the stages of a pipeline.

A cluster does not say which devices it has. Those that a tensor is sent between have different ones, so they lie one
behind the other: of `n` clusters of `k` devices the first has devices 0 to `k - 1`, the next those from `k` on. A
program is one for all devices, so each becomes a mesh of all `n · k`: its own axes, and `stage` as the last, at whose
first place its own devices are. The others compute the same (see `ir.sub_meshes`).

    mesh.cluster @a(rank = 1, dim_sizes = [2])   sdy.mesh @a = <["axis_0"=2, "stage"=2], device_ids=[0, 2, 1, 3]>
    mesh.cluster @b(rank = 1, dim_sizes = [2])   sdy.mesh @b = <["axis_0"=2, "stage"=2], device_ids=[2, 0, 3, 1]>

Source: the slides "Sharding Framework Design for Device Mesh", collective_permute: "useful in pipeline parallel".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardwright.errors import ShardingError
from shardwright.notation.names import symbol_text
from shardwright.notation.rfc.mesh import Cluster, line_of
from shardwright.notation.rfc.reading import ModuleReading

__all__ = ["join_stages"]

_PERMUTE = "mesh.collective_permute"


def join_stages(reading: ModuleReading) -> None:
    """Tell clusters between which tensors are sent that they are stages.

    Raises:
        ShardingError: one of them is unlike the others.
    """
    joined: dict[str, set[str]] = {}
    where: dict[str, Any] = {}
    for op, one, other in _leading(reading):
        together = joined.get(one, {one}) | joined.get(other, {other})
        for symbol in together:
            joined[symbol] = together
            where.setdefault(symbol, op)
    done: set[str] = set()
    for symbol in reading.clusters:
        if symbol in joined and symbol not in done:
            stages = [one for name, one in reading.clusters.items() if name in joined[symbol]]
            _check_alike(stages, reading, where[symbol])
            for number, stage in enumerate(stages):
                stage.stage = (number, len(stages))
            done |= joined[symbol]


def _leading(reading: ModuleReading) -> Iterator[tuple[Any, str, str]]:
    """The permutations between two clusters that the module has, with these."""
    for function in reading.functions:
        for name, op in function.ops:
            if name == _PERMUTE:
                layouts = (reading.type(value.type, op).layout for value in (op.operands[0], op.results[0]))
                symbols = [(layout.symbol if layout else "") or function.symbol for layout in layouts]
                if symbols[0] != symbols[1] and reading.clusters.keys() >= set(symbols):
                    yield op, symbols[0], symbols[1]


def _check_alike(stages: list[Cluster], reading: ModuleReading, op: Any) -> None:
    first = stages[0]
    for other in stages[1:]:
        if (other.sizes, other.names) != (first.sizes, first.names):
            raise ShardingError(
                f"{_PERMUTE} joins {symbol_text(first.symbol)} and {symbol_text(other.symbol)}, which are unlike",
                op=_PERMUTE,
                location=line_of(op, reading.name),
                cause=f"each device sends to one: one has dim_sizes = {first.sizes}, the other {other.sizes}",
                remedy="give the clusters between which tensors are sent the same axes",
            )
