"""The passes over explicit programs, by name: each file of this room registers its own.

@optimization("dead-collectives", "Leaves out collectives whose result nobody reads.", on=COLLECTIVES)
def dead(op, program): ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.optimize.explicit import ExplicitProgram

__all__ = ["Optimization", "optimization", "optimization_named", "optimizations"]

Improve = Callable[[Op, ExplicitProgram], bool]
"""Looks at an op, and says whether it has changed the program."""


@dataclass(frozen=True, slots=True)
class Optimization:
    """A pass.

    Attributes:
        name: What it is called.
        doc: What it does, in a sentence.
        on: The names of the ops that it looks at.
        improve: What it does to one of them.
        is_late: Whether it is tried when all others are done: it asks what runs beside what.
        is_manual: Whether it writes manual computations, which some notations do not have.
        is_weighed: Whether the program is made without it as well, and the faster one taken: late passes may find more
            there than it has saved.
    """

    name: str
    doc: str
    on: Collection[str]
    improve: Improve
    is_late: bool = False
    is_manual: bool = False
    is_weighed: bool = False


_KNOWN: dict[str, Optimization] = {}


def optimization(
    name: str,
    doc: str,
    *,
    on: Collection[str],
    is_late: bool = False,
    is_manual: bool = False,
    is_weighed: bool = False,
) -> Callable[[Improve], Improve]:
    """Register a function as the pass of a name."""

    def register(improve: Improve) -> Improve:
        _KNOWN[name] = Optimization(name, doc, on, improve, is_late, is_manual, is_weighed)
        return improve

    return register


def optimizations() -> tuple[Optimization, ...]:
    """All passes, in the order in which they are tried on an op."""
    return tuple(_KNOWN.values())


def optimization_named(name: str) -> Optimization:
    """The pass of a name.

    Raises:
        ShardingError: there is none.
    """
    if name not in _KNOWN:
        raise ShardingError(f"no such pass over collectives: {name!r}", remedy=f"one of {', '.join(_KNOWN)}")
    return _KNOWN[name]
