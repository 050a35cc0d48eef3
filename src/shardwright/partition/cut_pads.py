"""Slices of a pad that nothing else reads, taken for the pads that they are.

    %1 = pad %x, low = 1, high = 0     %2 = slice %1 [0:4096]     is     %2 = pad %x, low = 1, high = -1

Programs that shift rows, or read the neighbours of each, put rows in front first and cut off others then. In between
there are more rows than the shards take, so nearly all of them would cross to other devices, and back. As one pad,
those cross that it shifts.
"""

from __future__ import annotations

from shardwright.ir.attributes import i64_array
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.partition.localize.checks import is_split
from shardwright.partition.merged import read_counts, with_merged
from shardwright.rules.text import ATTRIBUTE

__all__ = ["with_cut_pads"]

_PAD, _SLICE = "stablehlo.pad", "stablehlo.slice"


def with_cut_pads(graph: Graph) -> Graph:
    """A propagated graph with pads in the place of slices of pads; the graph itself where there are none.

    Those are left as they are that cut nothing off a dimension that is split. The graph given stays as it is.
    """
    outside = [op for op in graph.main.block.walk(opaque=(MANUAL,)) if op.signature.name in (_PAD, _SLICE)]
    plain = [op for op in outside if not op.signature.text(ATTRIBUTE)]
    pads = {op.results[0]: op for op in plain if op.signature.name == _PAD}
    if not pads:
        return graph
    slices = [op for op in plain if op.signature.name == _SLICE and op.operands[0] in pads]
    cut = {op: pad for op in slices if (pad := _cut(graph, pads[op.operands[0]], op)) is not None}
    reads = read_counts(graph.main.block)
    reads.subtract(op.operands[0] for op in cut)
    return with_merged(graph, {op: pad for op, pad in cut.items() if not reads[op.operands[0]]})


def _cut(graph: Graph, pad: Op, cutting: Op) -> Op | None:
    """The pad that a slice of a pad is, where it cuts rows off a dimension that is split."""
    starts, limits, strides = (
        cutting.signature.get(name, ()) for name in ("start_indices", "limit_indices", "strides")
    )
    ends = [size - limit for size, limit in zip(cutting.signature.operands[0].dims, limits, strict=True)]
    layouts = [graph.shardings[value] for value in (pad.operands[0], cutting.results[0])]
    is_useful = any(
        (start or end) and layout is not None and layout.rank and is_split(layout.axes[dim])
        for dim, (start, end) in enumerate(zip(starts, ends, strict=True))
        for layout in layouts
    )
    if not is_useful or any(step != 1 for step in strides):
        return None
    low, high = (pad.signature.get(name, ()) for name in ("edge_padding_low", "edge_padding_high"))
    signature = pad.signature.replace(
        results=cutting.signature.results,
        edge_padding_low=i64_array([pads - start for pads, start in zip(low, starts, strict=True)]),
        edge_padding_high=i64_array([pads - end for pads, end in zip(high, ends, strict=True)]),
    )
    return Op(signature, pad.operands, cutting.results, (), cutting.location)
