"""Modules whose shardings are written in the `sdy` dialect: MLIR ↔ graph."""

from __future__ import annotations

from collections.abc import Callable

from shardwright.ir.context import ir, module_text
from shardwright.ir.fast.read import read_text
from shardwright.ir.fast.write import write_text
from shardwright.ir.graph import Graph
from shardwright.ir.read import read_module
from shardwright.ir.statements import Readers
from shardwright.ir.write import Printers, write_module
from shardwright.notation.carriers import carrier_text, needs_carrier, parse_carrier
from shardwright.notation.sdy.attributes import parse_manual_axes, print_manual_axes
from shardwright.notation.sdy.collectives import parse_step, print_step
from shardwright.notation.sdy.sharding import parse_mesh, parse_shardings, print_mesh, print_sharding, print_shardings

__all__ = ["LARGE", "PRINTERS", "READERS", "located_text", "read", "read_large", "text_of", "write"]

LARGE = 1 << 18
"""Characters of a text from which on it pays to parse each form of op but once."""

_MANY = 3000
"""Values of a graph from which on it pays to print each form of op but once."""

READERS = Readers(parse_mesh, parse_shardings, parse_manual_axes, parse_step, parse_carrier)
PRINTERS = Printers(
    print_mesh, print_sharding, print_shardings, print_manual_axes, print_step, needs_carrier, carrier_text
)


def read(module: ir.Module, source: str = "-") -> Graph:
    """The graph of a module, calls inlined; `source` names the text it was parsed from.

    Raises:
        ShardingError: what the graph cannot hold (see `ir.read`), at its location.
    """
    return read_module(module, READERS, source)


def write(graph: Graph, *, shardings: bool = True) -> ir.Module:
    """The module of a graph, with or without the shardings of its values."""
    return write_module(graph, PRINTERS, shardings=shardings)


def read_large(
    text: str, source: str = "-", check: Callable[[ir.Module], None] | None = None
) -> tuple[Graph, ir.Module] | None:
    """The graph of a large text, sooner than `read` has it, and a module with its top level and one op of each form.

    `None` for a small text, and where the whole has to be parsed, if only for the diagnostic: always so where `check`,
    which sees that module, raises a `ShardingError`.
    """
    return read_text(text, READERS, source, check) if len(text) > LARGE else None


def text_of(graph: Graph, *, shardings: bool = True, locations: bool = False) -> str:
    """The text of the module that `write` makes, with locations where asked for; sooner where it is large."""
    text = None
    if len(graph.types) > _MANY:
        text = write_text(graph, PRINTERS, shardings=shardings, locations=locations)
    if text is not None:
        return text
    return module_text(write_module(graph, PRINTERS, shardings=shardings, locations=locations), locations)


def located_text(graph: Graph) -> str:
    """The module of a graph as text with locations.

    Positions in the text that was parsed get the name of its file, so that a stage read again still points there.
    """
    text = text_of(graph, locations=True)
    name = graph.locations.source.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace('loc("-":', f'loc("{name}":')
