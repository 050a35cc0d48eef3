"""Custom calls of functions that XLA does not have: it names the target alone, by which the op is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph

__all__ = ["told_at_its_call"]

_WORDS = re.compile(r"No (?:registered implementation for .*?custom call to|FFI handler registered for) \"?([^\s\"]+)")


@contextmanager
def told_at_its_call(graph: Graph) -> Iterator[None]:
    """While a program is compiled or run: what XLA says of a function that it does not have is told at its call.

    Raises:
        ShardingError: in place of what is raised of it.
    """
    try:
        yield
    except ShardingError as error:
        found = _WORDS.search(f"{error.diagnostic.message}; {error.diagnostic.cause}")
        calls = graph.walk() if found else ()
        op = next((op for op in calls if found and op.signature.get("call_target_name", None) == found[1]), None)
        if found is None or op is None:
            raise
        raise ShardingError(
            f"XLA has no function {found[1]} to call",
            op=op.signature.label,
            location=str(graph.locations[op.location]),
            cause=f"it runs what is registered in its process: {found[0]}",
            remedy="write it in ops of StableHLO, or take it out; `shardwright partition` writes the program of a "
            "device as it is, for a process that has the function",
        ) from None
