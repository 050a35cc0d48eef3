"""Modules that come as bytecode: their ops of a dialect are held against its forms, as those of a text are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.locations import read_location
from shardwright.notation.forms.form import Dialect
from shardwright.notation.forms.texts import to_generic

__all__ = ["verify_bytecode"]

_LOCATION = re.compile(r'loc\(.*"(?:[^"\\]|\\.)*":[0-9]+:[0-9]+.*\)\s*$')


def verify_bytecode(module: Any, dialects: Sequence[Dialect], name: str = "-") -> None:
    """Check the ops of `dialects` in a module that MLIR read from the bytecode `name`.

    Raises:
        ShardingError: an op that the dialect lacks, an attribute that is missing or malformed, or an op that breaks the
            rules of its dialect; at the place that the op's location names.
    """
    text = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True, use_local_scope=True)
    try:
        to_generic(text, dialects, name)
    except ShardingError as error:
        raise _placed(error, text, name) from None


def _placed(error: ShardingError, text: str, name: str) -> ShardingError:
    """The same with the op's own location in place of that in the printed text, which nobody has."""
    diagnostic = error.diagnostic
    where = re.fullmatch(rf"{re.escape(name)}:([0-9]+)(?::[0-9]+)?", diagnostic.location)
    location = name
    if where:
        line = text.split("\n")[int(where[1]) - 1]
        printed = _LOCATION.search(line)
        own_location = read_location(printed[0]) if printed else None
        if own_location is not None and own_location.file not in ("", "-"):
            location = f"{own_location.file}:{own_location.line}"
    cause = re.sub(rf"{re.escape(name)}:[0-9]+(?::[0-9]+)?", "another op", diagnostic.cause)
    return error.replaced(location=location, cause=cause)
