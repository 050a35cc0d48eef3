"""Tensors that `arith.constant` makes, taken for the constants that they are: every device makes its part of one.

    arith.constant dense<2.0> : tensor<8x8xf32>     stablehlo.constant dense<2.0> : tensor<4x2xf32>   on 2x4 devices

Programs of upstream's dialects have their constants so. What is no tensor is index arithmetic of one device.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature

__all__ = ["as_of_arith", "with_tensor_constants"]

_ARITH, _OWN = "arith.constant", "stablehlo.constant"
_VALUE = "value"
_UNKNOWN_TO_ARITH = ("ui", "complex")


def with_tensor_constants(graph: Graph) -> Graph:
    """A program whose constant tensors are StableHLO's. The graph given is left as it is, or given back."""
    if _ARITH not in graph.op_names():
        return graph
    return replace(graph, main=replace(graph.main, block=_block(graph.main.block, _ARITH, _OWN)))


def as_of_arith(graph: Graph) -> Graph:
    """A program whose constant tensors are those of `arith`, of the element types that it has."""
    return replace(graph, main=replace(graph.main, block=_block(graph.main.block, _OWN, _ARITH)))


def _block(block: Block, before: str, after: str) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        signature, regions = op.signature, tuple([_block(region, before, after) for region in op.regions])
        if signature.name == before and _may_be_either(signature):
            signature = Signature(after, ((_VALUE, signature.text(_VALUE) or ""),), (), signature.results)
        ops.append(Op(signature, op.operands, op.results, regions, op.location))
    return Block(block.arguments, ops)


def _may_be_either(signature: Signature) -> bool:
    (type,) = signature.results
    return type.is_tensor and type.dtype != "index" and not type.dtype.startswith(_UNKNOWN_TO_ARITH)
