"""Collectives of what a loop does not change, brought before it: once instead of in each turn.

    while … { %1 = all_gather %w   … }      →      %1 = all_gather %w ;  while … { … }

A loop does not change what comes from outside, what it carries round as it is, and what an op that does nothing else
computes of such values. Legal for all kinds, types and orders of sums: the same is computed of the same. It is done
where the text tells that the loop runs more than once, since one that never runs would not have needed it.

What is brought out is held throughout the loop, where it was needed for a while. So no more is brought out of loops
than a bound allows, in bytes on each device (`ExplicitProgram.spare_bytes`).
"""

from __future__ import annotations

from shardwright.ir.graph import Op
from shardwright.ir.ops import COLLECTIVES
from shardwright.optimize.explicit import ExplicitProgram, is_pure
from shardwright.optimize.registry import optimization
from shardwright.words import bytes_text

__all__ = ["HOISTING", "hoisted"]

HOISTING = "hoist-collectives"
_MOST = 16
"""How many ops are brought out with a collective at most."""


@optimization(
    HOISTING, "Brings collectives of what a loop does not change before it, as memory allows.", on=COLLECTIVES
)
def hoisted(op: Op, program: ExplicitProgram) -> bool:
    """Bring a collective, and what it is computed of, out of the loop in whose body it stands."""
    loop, (result,) = program.loop_around(op), op.results
    found: dict[Op, None] = {}
    if loop is None or program.layout(result) is None or not _take(op, loop, program, found):
        return False
    turns = program.times(op) - program.times(loop)
    bytes = sum(program.cost(one).bytes_sent for one in found) * turns
    seconds = sum(program.seconds(program.cost(one)) for one in found) * turns
    held = program.local_bytes(result)
    if seconds <= 0 or held > program.spare_bytes:
        return False
    program.spare_bytes -= held
    program.note(HOISTING, op, f"the loop does not change it, and holds {bytes_text(held)}", bytes, seconds)
    for one in found:
        _bring_out(one, loop, program)
    return True


def _take(op: Op, loop: Op, program: ExplicitProgram, found: dict[Op, None]) -> bool:
    """Take up an op of a loop's body and what it is computed of there, that first; whether the loop changes none."""
    if not is_pure(op) or len(found) >= _MOST:
        return False
    for value in op.operands:
        maker = program.maker(value)
        if maker is not None and program.loop_around(maker) is loop and maker not in found:
            if not _take(maker, loop, program, found):
                return False
        elif value in loop.regions[1].arguments and _outside(value, loop) is None:
            return False
    found[op] = None
    return True


def _outside(value: int, loop: Op) -> int | None:
    """What an argument of a loop's body is in all turns, where the body passes it on as it is."""
    body = loop.regions[1]
    place = body.arguments.index(value)
    return loop.operands[place] if body.terminator.operands[place] == value else None


def _bring_out(op: Op, loop: Op, program: ExplicitProgram) -> None:
    """Move an op from a loop's body before the loop."""
    reason, rewriter = "the loop does not change it", program.rewriter
    carried = loop.regions[1].arguments
    rewriter.move(op, rewriter.before(loop), reason)
    values = [_outside(value, loop) if value in carried else value for value in op.operands]
    rewriter.set_operands(op, [value for value in values if value is not None], reason)
    block = program.block_of(loop)
    assert block is not None, "a loop stands where the program may be changed"
    program.came(op, block)
