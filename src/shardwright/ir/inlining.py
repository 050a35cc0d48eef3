"""Calls of a function whose ops were read before: the same ops again, of other values, without asking MLIR.

The ops of a function that calls itself, or that is only declared, cannot be put in place of a call.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.ir.copying import cloned
from shardwright.ir.graph import Op
from shardwright.ir.locations import LocationTable
from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding

__all__ = ["MOST_COPIED", "CallSites", "Inlined", "bodiless", "too_many", "uncallable"]

MOST_COPIED = 1_000_000
"""Ops that calls of functions read before may make; two calls a function, twenty functions deep, are as many."""


class CallSites:
    """The locations of ops in functions that are called, and of the same ops called from elsewhere."""

    def __init__(self, locations: LocationTable) -> None:
        """Know of no call."""
        self._locations = locations
        self._parts: dict[int, tuple[int, int]] = {}

    def inside(self, number: int, caller: int) -> int:
        """The number of location `number` in a function called from location `caller` (0: from nowhere)."""
        if not caller:
            return number
        nested = self._locations.inside(number, caller)
        self._parts[nested] = (number, caller)
        return nested

    def moved(self, number: int, old: int, new: int) -> int:
        """The number that a location inside the call at `old` has in the call at `new`."""
        if number == old:
            return new
        number, caller = self._parts[number]
        return self.inside(number, self.moved(caller, old, new))


@dataclass(frozen=True, slots=True)
class Inlined:
    """What a call of a function left in the graph.

    Attributes:
        arguments: The values that it was called with, all different.
        first: The first of the values made inside; all others follow.
        end: The first value made after it.
        ops: The function's ops, its return included.
        caller: The location of the call.
    """

    arguments: tuple[int, ...]
    first: int
    end: int
    ops: list[Op]
    caller: int

    @property
    def size(self) -> int:
        """How many ops a call makes, those in regions counted with the op that holds them."""
        return len(self.ops) + self.end - self.first

    def again(
        self,
        arguments: tuple[int, ...],
        caller: int,
        sites: CallSites,
        types: list[TensorType],
        shardings: list[TensorSharding | None],
    ) -> list[Op]:
        """The ops of another call; the values they make are appended to `types` and `shardings`."""
        shift = len(types) - self.first
        types += types[self.first : self.end]
        shardings += shardings[self.first : self.end]
        values = dict(zip(self.arguments, arguments, strict=True))
        values.update(zip(range(self.first, self.end), range(self.first + shift, self.end + shift), strict=True))
        return [
            cloned(op, values, values.__getitem__, lambda number: sites.moved(number, self.caller, caller))
            for op in self.ops
        ]


def bodiless(function: str) -> ShardingError:
    """The refusal of an entry that is only declared."""
    return ShardingError(
        f"function @{function} has no body",
        op="func.func",
        cause="it is the entry of the program, and declared only",
        remedy="give its definition",
    )


def too_many(op: str, function: str, location: str) -> ShardingError:
    """The refusal of a call, by an `op` at a location, with which a program becomes too large."""
    return ShardingError(
        f"with this call of @{function} the calls of the program make more than {MOST_COPIED} ops",
        op=op,
        location=location,
        cause="a call is its function's ops, and calls that branch at every level double them each time",
        remedy="use a loop, as stablehlo.while, for what is done again and again",
    )


def uncallable(op: str, function: str, recursive: bool, location: str) -> ShardingError:
    """The refusal of a call, by an `op` at a location, of a function whose ops cannot take its place."""
    if recursive:
        return ShardingError(
            f"function @{function} calls itself",
            op=op,
            location=location,
            cause="a call is its function's ops, and here there is no end to them",
            remedy="use a loop, as stablehlo.while",
        )
    return ShardingError(
        f"function @{function} is called but not defined",
        op=op,
        location=location,
        cause="how its operands and results belong together is read off its ops",
        remedy="give its definition, or call it by stablehlo.custom_call",
    )
