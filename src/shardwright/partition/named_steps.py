"""Steps that sdy has no op for: where they stand, and the chains of steps that lead to the same layouts.

That is an all_to_all that names a dimension twice, and a permute in parts. Text of sdy has them as the manual
computations that they are (see `enclose`). A notation that has no such computations has a chain in their place, the
cheapest one of steps that ops of sdy are for, along axes that are no more cut than they were:

    %0 = all_to_all [{"x"}: 2->1, {"y"}: 0->1] %a         %0 = sdy.all_to_all [{"x"}: 2->1] %a
                                                          %1 = sdy.all_to_all [{"y"}: 0->1] %0

What is read from that is the chain: it sends more, and gives every device the same.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.partition.bodies import is_program
from shardwright.partition.emit import emit_steps, step_of
from shardwright.reshard.plan import plan
from shardwright.steps import is_in_sdy

__all__ = ["is_named_step", "with_named_steps"]

_WIDER = ("sdy.all_to_all", "sdy.collective_permute")


def is_named_step(graph: Graph, op: Op) -> bool:
    """Whether sdy has an op for a step between layouts, as it has for most; of other ops that is true, too."""
    if op.signature.name not in _WIDER:
        return True
    before, after = graph.shardings[op.operands[0]], graph.shardings[op.results[0]]
    return before is None or after is None or is_in_sdy(step_of(op.signature, before, after), before)


def with_named_steps(graph: Graph) -> Graph:
    """An explicit program of steps that sdy has ops for; the graph itself where it is so. It stays as it is."""
    if all(is_named_step(graph, op) for op in graph.walk()):
        return graph
    made = replace(graph, types=list(graph.types), shardings=list(graph.shardings))
    made.main = replace(graph.main, block=_block(made, graph.main.block))
    return made


def _block(graph: Graph, block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if not is_named_step(graph, op):
            ops += _chain(graph, op)
        elif op.regions and (op.name != MANUAL or is_program(graph, op)):
            regions = tuple([_block(graph, region) for region in op.regions])
            ops.append(Op(op.signature, op.operands, op.results, regions, op.location))
        else:
            ops.append(op)
    return Block(block.arguments, ops)


def _chain(graph: Graph, op: Op) -> list[Op]:
    """The steps that lead where one step does."""
    (value,), (result,) = op.operands, op.results
    type, before, after = graph.types[value], graph.shardings[value], graph.shardings[result]
    assert before is not None
    assert after is not None
    steps = plan(type.dims, type.bytes // max(1, type.elements), before, after, dtype=type.dtype, named=True).steps
    builder = Builder(graph, [], op.location)
    emit_steps(builder, value, before, steps)
    *ops, last = builder.ops
    return [*ops, Op(last.signature, last.operands, op.results, (), op.location)]
