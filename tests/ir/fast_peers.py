"""The same text read twice: by forms of op, and as a whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, load_module
from shardwright.ir.fast.read import read_text
from shardwright.ir.graph import Block, Graph
from shardwright.notation import modules

__all__ = ["agree", "described"]


def described(graph: Graph) -> dict[str, Any]:
    """All that a graph says, locations as texts."""
    values = {field.name: getattr(graph, field.name) for field in fields(graph)}
    values |= {f"main.{field.name}": getattr(graph.main, field.name) for field in fields(graph.main)}
    for field in ("main", "locations", "main.block"):
        del values[field]
    values["main.argument_locations"] = [str(graph.locations.handle(place)) for place in graph.main.argument_locations]
    return values | {"block": _block(graph, graph.main.block)}


def _block(graph: Graph, block: Block) -> tuple[Any, ...]:
    ops = [
        (
            op.signature,
            op.operands,
            op.results,
            str(graph.locations.handle(op.location)),
            graph.locations[op.location],
            [_block(graph, region) for region in op.regions],
        )
        for op in block.ops
    ]
    return block.arguments, ops


def agree(text: str) -> bool:
    """Whether the text could be read by its forms. If so it must read, and say the same, as a whole."""
    quiet: Any = context().attach_diagnostic_handler(lambda _: True)
    try:
        read = read_text(text, modules.READERS, "p.mlir")
        try:
            whole = modules.read(load_module(text, "p.mlir"), "p.mlir")
        except ShardingError as error:
            assert read is None, f"read by forms, but as a whole: {error}"
            return False
        if read is not None:
            ours, theirs = described(read[0]), described(whole)
            for key, value in theirs.items():
                assert ours[key] == value, key
        return read is not None
    finally:
        quiet.detach()
