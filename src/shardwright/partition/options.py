"""The option that an op states, as the mesh RFC has it: it stays true where the op comes to be split otherwise.

    stablehlo.dot_general %0, %1 {shardwright.option = [[], [], [1, 2], [0]]}

Source: the mesh RFC on LLVM's forum, ShardingOption.
"""

from __future__ import annotations

from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.partition.factors import FactorAxes, merge, project
from shardwright.partition.splits import Splits, splits_of
from shardwright.propagation.rfc.option import OPTION, option_text
from shardwright.sharding import TensorSharding

__all__ = ["Layouts", "factors_of", "state_options", "with_option"]

Layouts = tuple[TensorSharding, ...]


def factors_of(splits: Splits, operands: Layouts, results: Layouts) -> FactorAxes:
    """The axes of each factor: from operands, and from results along factors that no operand has."""
    rule, count = splits.rule, len(splits.rule.sizes)
    read = frozenset(factor for mapping in rule.operands for dim in mapping for factor in dim)
    proposals = [
        project(mapping, rule.sizes, layout.axes) for mapping, layout in zip(rule.operands, operands, strict=True)
    ]
    for mapping, layout in zip(rule.results, results, strict=True):
        own = project(mapping, rule.sizes, layout.axes)
        proposals.append(tuple([() if factor in read else axes for factor, axes in enumerate(own)]))
    return merge(count, proposals, frozenset(range(count)))


def with_option(signature: Signature, operands: Layouts, results: Layouts) -> Signature:
    """An op that lies so; if it states along which axes its loops are split, as the mesh RFC has it, along these."""
    splits = splits_of(signature) if signature.text(OPTION) is not None else None
    if splits is None:
        return signature
    factors = factors_of(splits, operands, results)
    stated = option_text(factors.__getitem__, splits.rule, operands[0].mesh)
    return signature.replace(operands=None, results=None, **{OPTION: stated})


def state_options(graph: Graph) -> None:
    """Let every op of an explicit program that states its option state how it came to be split; in place."""
    shardings = graph.shardings
    for op in graph.walk():
        if op.signature.text(OPTION) is None or not op.operands:
            continue
        operands, results = ([shardings[value] for value in values] for values in (op.operands, op.results))
        known = (
            [layout for layout in operands if layout is not None],
            [layout for layout in results if layout is not None],
        )
        if len(known[0]) == len(operands) and len(known[1]) == len(results):
            op.signature = with_option(op.signature, tuple(known[0]), tuple(known[1]))
