"""Carriers: shardings that sdy's own parser does not know, as text in strings.

An op has `shardwright.shardings`, an array with one text per result, in place of `sdy.sharding`; an argument or result
of a function has `shardwright.sharding`; and in place of an `sdy.sharding_constraint`, which it becomes in the graph,
stands the op `"shardwright.constraint"(%x) {sharding = "text"}`. An empty text says nothing. Which collective such an
op, or a reshard, was written as stands in `shardwright.collective` while the module is checked; graphs do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir

__all__ = [
    "CARRIED_COLLECTIVE",
    "CARRIED_CONSTRAINT",
    "CARRIED_SHARDING",
    "CARRIED_SHARDINGS",
    "carried_text",
    "carried_texts",
]

CARRIED_SHARDINGS = "shardwright.shardings"
CARRIED_SHARDING = "shardwright.sharding"
CARRIED_CONSTRAINT = "shardwright.constraint"
CARRIED_COLLECTIVE = "shardwright.collective"


def carried_text(handle: Any) -> str:
    """The text in one carrier.

    Raises:
        ShardingError: the attribute is not a string.
    """
    if isinstance(handle, ir.StringAttr):
        return handle.value
    raise ShardingError(
        f"the carrier of a sharding is {str(handle)[:200]}",
        cause="it is not a string",
        remedy="write the sharding as text in quotes",
    )


def carried_texts(name: str, attributes: Mapping[str, Any], results: int) -> list[str] | None:
    """The texts that op `name` carries, one per result; `None` where it carries none.

    Raises:
        ShardingError: another number of them, something else than strings, or a constraint without its sharding.
    """
    if name == CARRIED_CONSTRAINT:
        texts = [attributes["sharding"]] if "sharding" in attributes else []
    elif CARRIED_SHARDINGS not in attributes:
        return None
    else:
        array = attributes[CARRIED_SHARDINGS]
        texts = list(array) if isinstance(array, ir.ArrayAttr) else [array]
    if len(texts) != results:
        raise ShardingError(
            f"{len(texts)} carriers of shardings are given for {results} results",
            op=name,
            remedy="give the text of one sharding per result",
        )
    return [carried_text(text) for text in texts]
