"""Visiting the ops below an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwright.ir.context import ir

__all__ = ["every_op", "walk"]


def walk(root: Any, visit: Callable[[Any], Any], *, outer_first: bool = False) -> None:
    """Call `visit` on `root` and every op below; what it returns says how to go on (`ir.WalkResult`).

    What `visit` raises comes out of here as it is: MLIR's bindings would make a `RuntimeError` of it, which holds its
    traceback as text.
    """
    raised: list[BaseException] = []

    def guarded(op: Any) -> Any:
        try:
            return visit(op)
        except BaseException as error:
            raised.append(error)
            return ir.WalkResult.INTERRUPT

    root.walk(guarded, ir.WalkOrder.PRE_ORDER if outer_first else ir.WalkOrder.POST_ORDER)
    if raised:
        raise raised[0]


def every_op(root: Any) -> list[ir.Operation]:
    """The ops below an op at any depth, those around others first: a list, so that they may be changed."""
    found: list[ir.Operation] = []

    def add(op: Any) -> Any:
        found.append(op.operation)
        return ir.WalkResult.ADVANCE

    walk(root, add, outer_first=True)
    return found[1:]
