"""Programs from files: StableHLO text, MLIR bytecode, StableHLO portable artifacts.

>>> text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
>>> load_source(text + chr(10)).graph.main.argument_names
['x']
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.diagnose import argument_names, explain, mesh_position
from shardwright.frontends.files import read_file
from shardwright.ir.context import context, load_module
from shardwright.ir.graph import Graph
from shardwright.notation import modules

__all__ = ["Source", "load_source", "parse_source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A program as it was given, and its graph.

    Attributes:
        name: The file, or `-` for text that came from none.
        content: Text, bytecode or portable artifact, untouched: what verification holds results against.
        graph: What was read.
    """

    name: str
    content: str | bytes
    graph: Graph


def load_source(source: str | bytes | os.PathLike[str]) -> Source:
    """Read a program from a path (`-` is standard input), or from the text or bytes themselves.

    A string with a line break is text, any other a path.

    Raises:
        ShardingError: an unreadable file, malformed MLIR, or a program that the graph cannot hold; with the position,
            the cause and what to change.
    """
    if isinstance(source, bytes):
        return parse_source(source)
    if isinstance(source, str) and "\n" in source:
        return parse_source(source)
    path = os.fspath(source)
    return parse_source(read_file(path), path)


def parse_source(content: str | bytes, name: str = "-") -> Source:
    """Read a program from `content`; diagnostics call it `name`."""
    quiet: Any = context().attach_diagnostic_handler(lambda _: True)  # else failed attempts print to stderr
    try:
        module = load_module(content, name)
        graph = modules.read(module, name)
        return Source(name, content, _with_names(graph, content))
    except ShardingError as error:
        raise _with_position(error, content, name) from None
    except RecursionError:
        raise ShardingError(
            "the program is nested too deeply to be read",
            location=name,
            cause="regions or locations within one another exceed what can be walked",
            remedy="flatten the nested regions",
        ) from None
    finally:
        quiet.detach()


def _with_names(graph: Graph, content: str | bytes) -> Graph:
    """Arguments without a name get the one that the text gives them: `%x`, which MLIR forgets."""
    names = graph.main.argument_names
    if names != [f"arg{number}" for number in range(len(names))]:
        return graph
    said = argument_names(content, graph.main.name, len(names))
    if len(set(said)) != len(names):
        return graph
    return replace(graph, main=replace(graph.main, argument_names=said))


def _with_position(error: ShardingError, content: str | bytes, name: str) -> ShardingError:
    said = explain(error.diagnostic, content, name)
    if not said.location:
        position = mesh_position(content, name) if said.op == "sdy.mesh" else ""
        said = replace(said, location=position or name)
    return _error(said)


def _error(said: Diagnostic) -> ShardingError:
    return ShardingError(said.message, op=said.op, location=said.location, cause=said.cause, remedy=said.remedy)
