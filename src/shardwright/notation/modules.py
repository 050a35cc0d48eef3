"""Modules whose shardings are written in the `sdy` dialect: MLIR ↔ graph."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.graph import Graph
from shardwright.ir.read import read_module
from shardwright.ir.write import write_module
from shardwright.notation.sdy import parse_mesh, parse_shardings, print_mesh, print_sharding, print_shardings

__all__ = ["read", "write"]


def read(module: ir.Module, source: str = "-") -> Graph:
    """The graph of a module, calls inlined; `source` names the text it was parsed from.

    Raises:
        ShardingError: what the graph cannot hold (see `ir.read`), at its location.
    """
    return read_module(module, parse_mesh, parse_shardings, source)


def write(graph: Graph, *, shardings: bool = True) -> ir.Module:
    """The module of a graph, with or without the shardings of its values."""
    if not shardings:
        return write_module(graph, print_mesh, None, None)
    return write_module(graph, print_mesh, print_sharding, print_shardings)
