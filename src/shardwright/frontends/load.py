"""Programs from files: StableHLO text, MLIR bytecode, StableHLO portable artifacts.

>>> text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
>>> load_source(text + chr(10)).graph.main.argument_names
['x']
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.files import printable, read_file
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.frontends.names import argument_names
from shardwright.ir.channels import give_channels
from shardwright.ir.context import as_text, context, ir, module_text
from shardwright.ir.devices import check_counts
from shardwright.ir.graph import Graph
from shardwright.ir.resources import with_elements_in_place
from shardwright.ir.scans import with_windows
from shardwright.mesh import Mesh
from shardwright.notation import modules
from shardwright.notation.conversion import may_have_leftovers, open_module
from shardwright.notation.module_notations import notation_of
from shardwright.notation.sdy.meshes import lift_inlined_meshes
from shardwright.notation.sdy.unnamed_meshes import drop_unnamed_meshes
from shardwright.notation.shard.grids import grids
from shardwright.words import kind_of

__all__ = ["Source", "content_of", "guarded", "load_source", "parse_source"]

_COLLECTIVES = ("all_", "reduce_scatter", "collective_")
"""Words without which no text has collectives."""


@dataclass(frozen=True, slots=True)
class Source:
    """A program as it was given, and its graph.

    Attributes:
        name: The file, or `-` for text that came from none.
        content: Text, bytecode or portable artifact, untouched: what verification holds results against. A module in
            another notation than sdy stands here as MLIR with its annotations in sdy, one with tuples without them, one
            with resources with their elements in its ops, one with scans with windows, one with meshes of another size
            that nothing names without these.
        graph: What was read.
        grids: The process grids that it names, by symbol.
        parts: What stands in it at the boundaries of the modules that it was made of, where that is known.
    """

    name: str
    content: str | bytes
    graph: Graph
    grids: Mapping[str, Mesh] = field(default_factory=dict)
    parts: tuple[ModuleTensor, ...] = ()


def load_source(source: str | bytes | os.PathLike[str]) -> Source:
    """Read a program from a path (`-` is standard input), or from the text or bytes themselves.

    A string with a line break is text, any other a path.

    Raises:
        ShardingError: an unreadable file, malformed MLIR, or a program that the graph cannot hold; with the position,
            the cause and what to change.
    """
    return parse_source(*content_of(source))


def content_of(source: str | bytes | os.PathLike[str]) -> tuple[str | bytes, str]:
    """What a source holds, and what diagnostics call it.

    Raises:
        ShardingError: an unreadable file, or what is neither path nor text.
    """
    if isinstance(source, bytes) or (isinstance(source, str) and "\n" in source):
        return as_text(source), "-"
    if not isinstance(source, (str, os.PathLike)):
        raise _no_source(source)
    path = os.fspath(source)
    if not path.strip():
        raise ShardingError("the path is empty", remedy="give the path of a module, or its text with a line break")
    try:
        return as_text(read_file(path), printable(path)), printable(path)
    except ShardingError as error:
        if "{" not in path:
            raise
        raise ShardingError(
            f"there is no file {path[:80]!r}",
            cause=error.diagnostic.cause,
            remedy="for text on a single line, put a line break at its end: any other string is a path",
        ) from None


def _no_source(source: object) -> ShardingError:
    """What to say of what is neither a path nor text; jax's own objects print themselves as text."""
    if hasattr(source, "as_text"):
        remedy = "give its text: sw.load(lowered.as_text(debug_info=True)), or the function to sw.from_jax"
    elif hasattr(source, "operation"):
        remedy = "give its text: sw.load(str(module))"
    else:
        remedy = "give the path of a module, its text or its bytes"
    return ShardingError(
        f"not a program: {source!r}"[:200].partition("\n")[0], cause=f"it is {kind_of(source)}", remedy=remedy
    )


def parse_source(content: str | bytes, name: str = "-") -> Source:
    """Read a program from `content`; diagnostics call it `name`."""
    with guarded(content, name):
        if isinstance(content, str):
            content = with_windows(with_elements_in_place(content, name), name)
        large = _read_large(content, name) if isinstance(content, str) else None
        if large is not None:
            return large
        opened = open_module(content, name)
        is_generic = not drop_unnamed_meshes(opened.module) and opened.is_generic
        reference = opened.generic if is_generic else module_text(opened.module, locations=True)
        graph = _settled(modules.read(opened.module, name), content)
        return Source(name, reference, _with_names(graph, content), grids(opened.module))


def _read_large(content: str, name: str) -> Source | None:
    """A program in sdy from a large text; `None` where it has to be read in the ordinary way."""
    notation = notation_of(content) if len(content) > modules.LARGE else None
    if notation is None or notation.name != "sdy" or may_have_leftovers(content, notation):
        return None
    generic = notation.generic(content, name)

    def check(module: ir.Module) -> None:
        check_counts(module, name)
        notation.read(module, name, generic)
        grids(module)

    parsed = modules.read_large(generic, name, check)
    if parsed is None:
        return None
    graph, module = parsed
    return Source(name, generic, _with_names(_settled(graph, content), content), grids(module))


def _settled(graph: Graph, content: str | bytes) -> Graph:
    """A program that was read, with a symbol for each mesh and a channel for each collective, changed in place."""
    lift_inlined_meshes(graph)
    if isinstance(content, bytes) or any(word in content for word in _COLLECTIVES):
        give_channels(graph)
    return graph


@contextmanager
def guarded(content: str | bytes, name: str) -> Iterator[None]:
    """While a module is read: what MLIR prints is kept back, what goes wrong gets its position in `content`.

    Raises:
        ShardingError: in place of what the readers raise.
    """
    quiet: Any = context().attach_diagnostic_handler(lambda _: True)  # else failed attempts print to stderr
    try:
        yield
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
    names_in_text = argument_names(content, graph.main.name, len(names))
    if len(set(names_in_text)) != len(names):
        return graph
    return replace(graph, main=replace(graph.main, argument_names=names_in_text))


def _with_position(error: ShardingError, content: str | bytes, name: str) -> ShardingError:
    from shardwright.frontends.diagnose import explain, mesh_position  # loaded where something went wrong

    diagnostic = explain(error.diagnostic, content, name)
    if diagnostic.location.startswith("-:"):  # text without locations, which MLIR calls `-`
        diagnostic = replace(diagnostic, location=name + diagnostic.location[1:])
    elif not diagnostic.location:
        position = mesh_position(content, name) if diagnostic.op == "sdy.mesh" else ""
        diagnostic = replace(diagnostic, location=position or name)
    return error.replaced(**asdict(diagnostic))
