"""Arrays that a user gives a program, by its arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardwright.errors import ShardingError
from shardwright.words import counted, kind_of

if TYPE_CHECKING:
    from shardwright.runtime.call import Call

__all__ = ["Inputs", "given_arrays"]

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any] | None
"""Arrays by argument name, or the positional arguments of the function."""


def given_arrays(given: Inputs, names: Collection[str], call: Call | None) -> dict[str, Any]:
    """Arrays by name or number: those given, then those that the function was lowered with.

    Arguments:
        given: What the user gives.
        names: What the arguments are called.
        call: How the function is called that the program came from.

    Raises:
        ShardingError: neither names nor a list, or not as many arrays as there are arguments.
    """
    if given is not None and not isinstance(given, Mapping):
        if not isinstance(given, Sequence):
            raise ShardingError(
                f"not inputs: {given!r}"[:200],
                cause=f"it is {kind_of(given)}",
                remedy="give arrays by argument name, or the list of all arguments",
            )
        leaves = list(given) if call is None else call.flatten(tuple(given), {})
        if len(leaves) != len(names):
            raise ShardingError(
                f"the program takes {counted(len(names), 'array')}, {len(leaves)} were given",
                cause=f"its arguments are {', '.join(names)}",
                remedy="give all of them, or a mapping by name; what is missing from that is drawn",
            )
        return {str(number): np.asarray(leaf) for number, leaf in enumerate(leaves)}
    own = dict(given or {})
    known = {} if call is None else call.given()
    numbers = {name: str(number) for number, name in enumerate(names)}
    return {**{name: value for name, value in known.items() if numbers[name] not in own}, **own}
