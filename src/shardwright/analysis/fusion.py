"""Which values of a block take no buffer, since compilers compute them in the kernels that read them.

    %1 = convert %g                                  one kernel, which reads %g and %m, and writes %3
    %2 = multiply %1, %c                      →
    %3 = add %2, %m

An elementwise op, and one that moves elements, is a part of what reads it where that is another such op or a
reduction, all of its readers are, and it is cheap or has one reader. What it is computed of is alive until the last
kernel that it is a part of has run. Products, convolutions, collectives, loops, barriers and what is returned take
whole tensors. Compilers differ in the rest: XLA's for GPUs and TPUs fuse reductions into what reads them as well, and
what several read that costs more than reading it again.

Source: XLA, `instruction_fusion`; `tests/oracles/hlo_work.py` prices memory traffic by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shardwright.ir.graph import Block, Op
from shardwright.rules.traits import facts_of

__all__ = ["Fusion", "fusion_of"]

_EXPENSIVE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("atan2", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic"),
        *("power", "rsqrt", "sine", "sqrt", "tan", "tanh"),
    )
)
_REDUCE = "stablehlo.reduce"
_MOST = 32
"""How many tensors a kernel reads at most."""


class Fusion(NamedTuple):
    """What takes no buffer in a block.

    Attributes:
        sources: Each value that takes none, with those that take one and that it is computed of.
        last: For each value the number of the last op that reads it, by itself or as a part of that.
    """

    sources: Mapping[int, tuple[int, ...]]
    last: Mapping[int, int]


def fusion_of(block: Block) -> Fusion:
    """Look at the ops of a block, its last one included, which takes what it returns."""
    last, ends, readers = _readers(block)
    sources: dict[int, tuple[int, ...]] = {}
    for op in block.ops:
        if len(op.results) == 1 and _may_be_a_part(op):
            (value,) = op.results
            times = readers.get(value, 0)
            if value in last and value not in ends and (times == 1 or op.name not in _EXPENSIVE):
                found = dict.fromkeys([one for operand in op.operands for one in sources.get(operand, (operand,))])
                if len(found) <= _MOST:
                    sources[value] = tuple(found)
    for op in reversed(block.ops):
        for value in op.results:
            if value in sources:
                # All that reads it stands behind it, and was looked at: `last` of it is that of its last kernel.
                for operand in op.operands:
                    last[operand] = max(last[operand], last[value])
    return Fusion(sources, last)


def _readers(block: Block) -> tuple[dict[int, int], set[int], dict[int, int]]:
    """Of each value the number of the op that reads it last, those that something takes whole, and how many read it."""
    last: dict[int, int] = {}
    whole: set[int] = set()
    readers: dict[int, int] = {}
    for number, op in enumerate(block.ops):
        for value in op.reads() if op.regions else op.operands:
            last[value] = number
            readers[value] = readers.get(value, 0) + 1
        if op.regions:
            whole.update(op.reads())
        elif op.name != _REDUCE and not _may_be_a_part(op):
            whole.update(op.operands)
    return last, whole, readers


def _may_be_a_part(op: Op) -> bool:
    """Whether kernels of other ops compute an op where they read it."""
    facts = facts_of(op.name)
    is_light = facts.elementwise or facts.moves or facts.computed_where_read or facts.constant
    return is_light and not (op.regions or facts.effects or op.name == "stablehlo.optimization_barrier")
