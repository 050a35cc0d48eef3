"""The program for one device: what a sharded program's results are held against."""

from __future__ import annotations

from dataclasses import replace

from shardwright.frontends.load import Source
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation import modules

__all__ = ["unsharded_text"]

_RUNS_AS_IT_IS = frozenset({"sdy.sharding_constraint", "sdy.sharding_group"})
_HANDS_ON = frozenset(
    f"sdy.{name}"
    for name in (
        "sharding_constraint",
        "reshard",
        "data_flow_edge",
        "propagation_barrier",
        "all_gather",
        "all_slice",
        "all_to_all",
        "all_reduce",
        "reduce_scatter",
        "collective_permute",
    )
)
"""Ops that move a tensor and leave its value, seen as a whole, as it is."""
_DROPPED = frozenset({"sdy.sharding_group"})


def unsharded_text(source: Source) -> str:
    """The program as it was given, untouched wherever XLA can run that on one device.

    A module of a later stage holds resharding, which one device has no use for: it is written anew without.
    """
    if all(op.name in _RUNS_AS_IT_IS for op in source.graph.walk() if op.name.startswith("sdy.")):
        content = source.content
        return content if isinstance(content, str) else module_text(load_module(content, source.name))
    return module_text(modules.write(_without_resharding(source.graph), shardings=False))


def _without_resharding(graph: Graph) -> Graph:
    same: dict[int, int] = {}
    block = _block(graph.main.block, same)
    return replace(graph, main=replace(graph.main, block=block))


def _block(block: Block, same: dict[int, int]) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        operands = tuple(same.get(value, value) for value in op.operands)
        if op.name in _HANDS_ON:
            same[op.results[0]] = operands[0]
        elif op.name not in _DROPPED:
            regions = tuple(_block(region, same) for region in op.regions)
            ops.append(Op(op.signature, operands, op.results, regions, op.location))
    return Block(block.arguments, ops)
