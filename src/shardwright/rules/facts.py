"""What an op is by its name: facts that no shape changes, declared beside the op's rule and given by `traits`.

    @sharding_rule("stablehlo.transpose", facts=OpFacts(flow=Flow.PASS_THROUGH))
    declare(["stablehlo.iota"], OpFacts(constant=True))

Whoever needs to know something of ops asks for the fact; nobody but the family of an op lists its name.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, fields

__all__ = ["ALL", "MOVES", "Flow", "OpFacts", "declare", "facts_of", "known_ops", "names"]


ALL: tuple[int, ...] = ()
"""All operands of an op together."""


class Flow(enum.Enum):
    """How willing an op is to pass shardings on."""

    PASS_THROUGH = enum.auto()
    DYNAMIC_SLICE = enum.auto()
    BROADCAST = enum.auto()
    OTHER = enum.auto()
    FORWARD_BARRIER = enum.auto()
    BACKWARD_BARRIER = enum.auto()
    BARRIER = enum.auto()

    __hash__ = object.__hash__  # flows are keys; the hash that enumerations have of their own is slow


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What is known of an op. What is not declared is not so.

    Attributes:
        elementwise: Whether it has MLIR's trait `Elementwise`, or one of `chlo` that says the same: each element of a
            result is computed from the same element of the operands.
        moves: Whether its result is its first operand with elements moved, repeated or left out, and none computed. Of
            several results each is so of the operand of its number.
        converts: Whether its result is its operand in another precision.
        product: Whether it is a product of matrices.
        windowed: Whether it takes a part of its operand, extends it, or slides windows along it.
        linear: Sets of operands in which, all others fixed, it is linear. A product is so in either operand, a sum in
            both together; `ALL` are as many as there are.
        index_by_index: Whether it goes index by index through the factors of which a device computes its own part, so
            that padding there is padding of its result. Elementwise ops without a body do so too.
        exact: Whether it computes, if anything, what nothing rounds; what `moves`, and constants, are so too.
        of_nonnegative: Whether its first operand must not be negative.
        nonnegative: Whether its result is never negative.
        joins: Whether each element of its result is an element of an operand, or a sum of some: of what is not negative
            it makes nothing that is.
        sums: Whether it adds up elements, in an order that is not its own to choose.
        typed: Whether it is made for the types that it has, and would be another op on others.
        in_place: Whether it may write into an operand's buffer. Elementwise ops may too.
        shares_buffer: Whether its results lie in the buffers of its operands.
        computed_where_read: Whether compilers compute it where it is read, and keep no buffer for it.
        constant: Whether it makes, of no operands, what any device can make any part of.
        literal: Whether its value stands in it: MLIR's trait `ConstantLike`.
        preserves_constants: Whether its result is a constant expression where its operands are. Elementwise ops
            without effects are so too.
        effects: Whether it does something besides computing its results, and so stays though nobody reads them.
        host: Whether it talks to the host, or to another program.
        refused: Why it has no meaning in a program that is written for one device; empty where it has one.
        flow: How willing it is to pass shardings on, where it is not as any other op.
    """

    elementwise: bool = False
    moves: bool = False
    converts: bool = False
    product: bool = False
    windowed: bool = False
    linear: tuple[tuple[int, ...], ...] = ()
    index_by_index: bool = False
    exact: bool = False
    of_nonnegative: bool = False
    nonnegative: bool = False
    joins: bool = False
    sums: bool = False
    typed: bool = False
    in_place: bool = False
    shares_buffer: bool = False
    computed_where_read: bool = False
    constant: bool = False
    literal: bool = False
    preserves_constants: bool = False
    effects: bool = False
    host: bool = False
    refused: str = ""
    flow: Flow | None = None

    def __or__(self, other: OpFacts) -> OpFacts:
        """What either says."""
        return OpFacts(*[getattr(self, field.name) or getattr(other, field.name) for field in fields(OpFacts)])


MOVES = OpFacts(moves=True, linear=((0,),))
"""An op on one tensor that moves data and does nothing else."""

_NONE = OpFacts()
_facts: dict[str, OpFacts] = {}


def declare(ops: Iterable[str], facts: OpFacts) -> None:
    """Say what is true of ops, beside what has been said of them; a custom call is named by its label."""
    for name in ops:
        known = _facts.get(name)
        _facts[name] = facts if known is None else known | facts


def facts_of(name: str) -> OpFacts:
    """The facts of an op by its name, of a custom call by its label; `traits` gives it with all families imported."""
    return _facts.get(name, _NONE)


def known_ops() -> tuple[str, ...]:
    """The names, and labels of custom calls, of which something has been declared."""
    return tuple(_facts)


def names(dialect: str, *lines: str) -> tuple[str, ...]:
    """Names of ops of one dialect, separated by spaces: many go on a line."""
    return tuple(f"{dialect}.{name}" for line in lines for name in line.split())
