"""Taking ops out of a module: a check stands before what MLIR does without one.

MLIR frees an op whatever still reads it; the next that does corrupts the heap, and the process ends somewhere else.
"""

from __future__ import annotations

from typing import Any

__all__ = ["erase"]


def erase(op: Any) -> None:
    """Take out an op with all that its regions hold; no handle of it, or of what it holds, may be used any more.

    Raises:
        RuntimeError: something reads its results; nothing has been changed.
    """
    for result in op.results:
        reader = next(iter(result.uses), None)
        if reader is not None:
            raise RuntimeError(f"{op.name} cannot be erased while {reader.owner.name} reads it")
    op.erase()
