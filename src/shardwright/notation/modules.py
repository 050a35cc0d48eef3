"""Modules whose shardings are written in the `sdy` dialect: MLIR ↔ graph."""

from __future__ import annotations

from shardwright.ir.context import ir, module_text
from shardwright.ir.graph import Graph
from shardwright.ir.read import Readers, read_module
from shardwright.ir.write import Printers, write_module
from shardwright.notation.carriers import carrier_text, needs_carrier, parse_carrier
from shardwright.notation.sdy import parse_mesh, parse_shardings, print_mesh, print_sharding, print_shardings

__all__ = ["located_text", "read", "write"]

_READERS = Readers(parse_mesh, parse_shardings, parse_carrier)
_PRINTERS = Printers(print_sharding, print_shardings, needs_carrier, carrier_text)


def read(module: ir.Module, source: str = "-") -> Graph:
    """The graph of a module, calls inlined; `source` names the text it was parsed from.

    Raises:
        ShardingError: what the graph cannot hold (see `ir.read`), at its location.
    """
    return read_module(module, _READERS, source)


def write(graph: Graph, *, shardings: bool = True) -> ir.Module:
    """The module of a graph, with or without the shardings of its values."""
    return write_module(graph, print_mesh, _PRINTERS if shardings else None)


def located_text(graph: Graph) -> str:
    """The module of a graph as text with locations.

    Positions in the text that was parsed get the name of its file, so that a stage read again still points there.
    """
    text = module_text(write(graph), locations=True)
    name = graph.locations.source.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace('loc("-":', f'loc("{name}":')
