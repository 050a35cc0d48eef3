"""A program or function that is being written: the values there are, and steps on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax

from tests.graphs.steps import Block, Step, evaluated
from tests.graphs.values import Range, Value

__all__ = ["LARGEST", "STEPS", "Maker", "Scope", "Writer", "step"]

LARGEST = 4096
"""Elements of a value."""

_DEEPEST = 2
_MOST_ARGUMENTS = 12


@dataclass(frozen=True, slots=True)
class Maker:
    """How to write a step of a kind on a value that it takes."""

    family: str
    accepts: Callable[[Value], bool]
    make: Callable[[Scope, Value], None]
    weight: float
    is_smooth: bool


STEPS: list[Maker] = []
"""All kinds of steps, from all files of `families`."""


def step(
    family: str, accepts: Callable[[Value], bool], weight: float = 1.0, smooth: bool = False
) -> Callable[[Callable[[Scope, Value], None]], Callable[[Scope, Value], None]]:
    """Register a kind of step: what first operands it takes, how often, and whether gradients go through it."""

    def register(make: Callable[[Scope, Value], None]) -> Callable[[Scope, Value], None]:
        STEPS.append(Maker(family, accepts, make, weight, smooth))
        return make

    return register


@dataclass
class Writer:
    """What all functions of a program share.

    Attributes:
        makers: The kinds of steps there are.
        sizes: The lengths that dimensions mostly have.
        axes: The axes of the mesh.
        sharding: A sharding for a value, as text.
        arguments: Those that were asked for so far.
    """

    rng: random.Random
    makers: tuple[Maker, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[str, int], ...]
    sharding: Callable[[Value], str]
    arguments: list[Value] = field(default_factory=list)
    types: dict[str, jax.ShapeDtypeStruct] = field(default_factory=dict)
    count: int = 0

    def name(self, letter: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{letter}{self.count}"

    def value(self, shape: Sequence[int], dtype: str, range: Range) -> Value:
        """A new value."""
        made = Value(self.name(), tuple(shape), dtype, range)
        self.types[made.name] = made.struct
        return made


@dataclass
class Scope:
    """A function that is being written.

    Attributes:
        values: What its steps may use.
        steps: What there is of it.
        depth: In how many functions it is.
        only_smooth: Whether gradients are to go through it.
        family: Of the step that is being written.
    """

    writer: Writer
    values: list[Value]
    depth: int = 0
    only_smooth: bool = False
    steps: list[Step] = field(default_factory=list)
    family: str = ""

    @property
    def rng(self) -> random.Random:
        return self.writer.rng

    @property
    def may_nest(self) -> bool:
        return self.depth < _DEEPEST

    def pick(self, accepts: Callable[[Value], bool]) -> Value | None:
        """A value that is accepted, the last ones more often."""
        fitting = [value for value in self.values if accepts(value)]
        if not fitting:
            return None
        return self.rng.choice(fitting[-4:] if self.rng.random() < 0.5 else fitting)

    def like(self, value: Value) -> Value:
        """A value of the same type: itself, if there is no other."""
        others = [one for one in self.values if (one.shape, one.dtype) == (value.shape, value.dtype)]
        return self.rng.choice(others or [value])

    def fitting(self, shape: Sequence[int], dtype: str) -> Value:
        """A value of a type: one there is, an argument or a constant."""
        there = [one for one in self.values if (one.shape, one.dtype) == (tuple(shape), dtype)]
        if there and self.rng.random() < 0.6:
            return self.rng.choice(there)
        if len(self.writer.arguments) < _MOST_ARGUMENTS and self.rng.random() < 0.8:
            made = self.writer.value(shape, dtype, Range())
            self.writer.arguments.append(made)
            return made
        return self.emit(f"some({tuple(shape)}, {dtype!r})", Range(), family="constant")[0]

    def emit(
        self,
        text: str,
        range: Range,
        *,
        family: str = "",
        blocks: tuple[Block, ...] = (),
        reference: str = "",
        ranges: Sequence[Range] = (),
    ) -> list[Value]:
        """Add a step; its values, none where they would be too large.

        Arguments:
            text: What its values are.
            range: What they hold.
            family: Of the step, where it is not the one that is being written.
            blocks: Functions in the text.
            reference: The text for one device.
            ranges: What each of the values holds, where they differ.
        """
        family = family or self.family
        types = evaluated(Step(family, (), text, blocks, reference), self.writer.types)
        if family != "constant" and any(type.size > LARGEST or len(type.shape) > 5 for type in types):
            return []
        held = ranges or [range] * len(types)
        made = [self.writer.value(type.shape, str(type.dtype), one) for type, one in zip(types, held, strict=True)]
        self.steps.append(Step(family, tuple(value.name for value in made), text, blocks, reference))
        small = [self._made_small(value) for value in made]
        self.values += small
        return small

    def _made_small(self, value: Value) -> Value:
        """The value, or one of smaller numbers made of it, with no more rounding than it has."""
        if not value.is_large:
            return value
        if value.is_integer:
            return self._added(value, f"lax.rem({value}, lax.full_like({value}, 7))", Range(6.0))
        scale = 2.0 ** -max(0, int(value.range.bound / 4).bit_length())
        if value.is_exact and value.is_float:
            return self._added(value, f"jnp.floor({value} * {scale})", Range(5.0))
        range = Range(value.range.bound * scale, value.range.grain * scale if value.is_exact else 0.0)
        return self._added(value, f"{value} * {scale}", range)

    def _added(self, value: Value, text: str, range: Range) -> Value:
        made = self.writer.value(value.shape, value.dtype, range)
        self.steps.append(Step("scale", (made.name,), text))
        return made

    def inner(self, parameters: Sequence[Value], *, only_smooth: bool = False, closed: bool = False) -> Scope:
        """A scope for a function with these parameters, which sees what is around it unless `closed`."""
        seen = [] if closed else self.values[-6:]
        return Scope(self.writer, [*seen, *parameters], self.depth + 1, only_smooth or self.only_smooth)

    def parameter(self, like: Value, range: Range | None = None) -> Value:
        """A value of a type for a function to take."""
        return self.writer.value(like.shape, like.dtype, range or like.range)

    def block(self, parameters: Sequence[Value], returns: str) -> Block:
        """What was written as a function."""
        return Block(self.writer.name("f"), tuple(map(str, parameters)), tuple(self.steps), returns)

    def write(self, count: int) -> None:
        """Add so many steps of any kind that fits."""
        makers = [maker for maker in self.writer.makers if maker.is_smooth or not self.only_smooth]
        weights = [maker.weight for maker in makers]
        end = len(self.steps) + count
        for _ in range(8 * count):
            if len(self.steps) >= end:
                return
            (maker,) = self.rng.choices(makers, weights)
            operand = self.pick(maker.accepts)
            if operand is not None:
                self.family = maker.family
                maker.make(self, operand)
