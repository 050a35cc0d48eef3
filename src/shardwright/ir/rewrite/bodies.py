"""Changing bodies that compute on scalars: values that are numbered by where they come to be are numbered anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.ir.signature import Body, BodyOp
from shardwright.ir.types import TensorType

__all__ = ["Append", "rewritten_body"]

Append = Callable[[BodyOp], tuple[int, ...]]
"""Appends an op to a body and gives the numbers of its results."""


def rewritten_body(
    body: Body,
    rewrite: Callable[[BodyOp, Append], Sequence[int]],
    arguments: tuple[TensorType, ...] | None = None,
) -> Body:
    """A body with other ops in place of its own.

    Arguments:
        body: The body.
        rewrite: Is given each op, which reads values of the new body, and what appends ops to that; gives the numbers
            that stand for the op's results. The bodies of the op are as they were.
        arguments: The types of the new body's arguments, where they are others.

    >>> scalar = TensorType((), "f32")
    >>> twice = BodyOp("stablehlo.negate", (), (0,), (scalar,)), BodyOp("stablehlo.negate", (), (1,), (scalar,))
    >>> body = Body((scalar,), (*twice, BodyOp("stablehlo.return", (), (2,), ())))
    >>> plain = rewritten_body(body, lambda op, append: op.operands if op.name == "stablehlo.negate" else append(op))
    >>> [(op.name, op.operands) for op in plain.ops]
    [('stablehlo.return', (0,))]
    """
    ops: list[BodyOp] = []
    taken = len(body.arguments)

    def append(op: BodyOp) -> tuple[int, ...]:
        nonlocal taken
        ops.append(op)
        first, taken = taken, taken + len(op.results)
        return tuple(range(first, taken))

    numbers = list(range(taken))
    for op in body.ops:
        operands = tuple([numbers[number] for number in op.operands])
        numbers += rewrite(BodyOp(op.name, op.attributes, operands, op.results, op.bodies), append)
    return Body(body.arguments if arguments is None else arguments, tuple(ops))
