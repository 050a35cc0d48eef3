"""The names that MLIR's printer gives to values: `%0`, `%cst_7`, `%arg3`, `%5#1`.

In a block, values without a name of their own are numbered; an op may wish for a name (`cst`), which gets a number
where it is taken already. The values of a region go on from the last ones of the block around it, so regions beside one
another use the same names. Source: SSANameState in MLIR's AsmPrinter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["ARGUMENT", "NameScope", "wished"]

ARGUMENT = "arg"
"""What arguments of blocks are called that have no other name: these are counted by themselves."""

_CONFLICT = re.compile(r"(.+)_\d+$")


@dataclass(slots=True)
class NameScope:
    """What names are given next.

    Attributes:
        value: The next number of a value.
        argument: The next number of an argument.
        conflict: The next number that is put behind a name taken.
        used: The names given here.
        outer: Those given in the scopes around this one.
    """

    value: int = 0
    argument: int = 0
    conflict: int = 0
    used: set[str] = field(default_factory=set)
    outer: tuple[set[str], ...] = ()

    def name(self, wish: str = "") -> str:
        """A name for the next value, with `%`: a number, the next argument, or the name wished for."""
        if not wish:
            self.value += 1
            return f"%{self.value - 1}"
        if wish == ARGUMENT:
            self.argument += 1
            wish = f"{ARGUMENT}{self.argument - 1}"
        name = wish
        while name in self.used or any(name in names for names in self.outer):
            name = f"{wish}_{self.conflict}"
            self.conflict += 1
        self.used.add(name)
        return f"%{name}"

    def inner(self) -> NameScope:
        """The scope of a region of an op in this block, of which all values are named by now."""
        return NameScope(self.value, self.argument, self.conflict, set(), (*self.outer, self.used))


def wished(name: str) -> str:
    """The wish that a printed name, without `%`, seems to come from: of `cst_7` it is `cst`, of `5` none."""
    if name.isdigit():
        return ""
    if name.startswith(ARGUMENT) and name[len(ARGUMENT) :].isdigit():
        return ARGUMENT
    conflict = _CONFLICT.match(name)
    return conflict[1] if conflict else name
