"""How people shard models: parameters over the data axis, over the model axis, or over both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shardwright as sw

__all__ = ["PLANS"]

Shardings = dict[str | int, Any]


def fully_sharded(program: sw.Program) -> Shardings:
    """Every argument split along its first dimension over `data`, the batch as well."""
    return {
        name: ("data", *[None] * (type.rank - 1))
        for name, type in program.arguments.items()
        if type.rank and type.dims[0] % 2 == 0
    }


def tensor_parallel(program: sw.Program) -> Shardings:
    """Every matrix of the module split along its last dimension over `model`."""
    call: Any = program.call
    own = set(call.aliases.values())
    return {
        name: (*[None] * (type.rank - 1), "model")
        for name, type in program.arguments.items()
        if name in own and type.rank > 1 and type.dims[-1] % 4 == 0
    }


def both(program: sw.Program) -> Shardings:
    """The two together."""
    rows, columns = fully_sharded(program), tensor_parallel(program)
    return rows | {name: (rows[name][0] if name in rows else None, *entries[1:]) for name, entries in columns.items()}


PLANS: dict[str, Callable[[sw.Program], Shardings]] = {
    "fully sharded": fully_sharded,
    "tensor": tensor_parallel,
    "both": both,
}
