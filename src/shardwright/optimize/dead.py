"""Dead collectives: those whose result nobody reads, and those that leave every element where it is.

Legal for all kinds, element types and orders of sums: nothing that the program gives depends on the first, and the
second is its operand. What only a dead collective read goes with it, as far as it does nothing else.
"""

from __future__ import annotations

from shardwright.ir.graph import Op
from shardwright.ir.ops import COLLECTIVES
from shardwright.optimize.draft import Draft
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.registry import optimization

__all__ = ["dead"]

_NAME = "dead-collectives"


@optimization(_NAME, "Leaves out collectives that nobody reads, or that move nothing.", on=COLLECTIVES)
def dead(op: Op, program: ExplicitProgram) -> bool:
    """Leave out a collective whose result nobody reads, or has the layout of its operand."""
    (operand,), (result,) = op.operands, op.results
    is_read = bool(program.readers(result))
    if is_read and program.layout(operand) != program.layout(result):
        return False
    draft = Draft(program)
    if is_read:
        draft.replace(result, operand)
    else:
        draft.drop(result)
    return draft.take(_NAME, op, "it moves nothing" if is_read else "nobody reads its result")
