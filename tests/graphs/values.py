"""Values of a program that is being written, and what numbers they can hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

__all__ = ["FLOATS", "INTEGERS", "REALS", "Range", "Value"]

FLOATS = ("float32", "bfloat16", "float16")
INTEGERS = ("int32", "int8", "uint8", "uint32")
REALS = (*FLOATS, *INTEGERS)

_PRECISION = {"float32": 24, "bfloat16": 8, "float16": 11, "complex64": 24}
_SPARE = {"float32": 9, "bfloat16": 3, "float16": 4, "complex64": 9}
"""Bits that a value may use so that a product of two, summed over a dimension, is still exact, or nearly."""


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of the numbers of a value.

    Attributes:
        bound: None is larger, in absolute terms.
        grain: All are multiples of it; 0 where they are rounded, and a comparison of two may fall out either way.
    """

    bound: float = 4.0
    grain: float = 1.0

    def joined(self, other: Range) -> Range:
        """Of values taken from both."""
        return Range(max(self.bound, other.bound), min(self.grain, other.grain))

    def plus(self, other: Range) -> Range:
        """Of their sums."""
        return Range(self.bound + other.bound, min(self.grain, other.grain))

    def times(self, other: Range, count: int = 1) -> Range:
        """Of sums of so many products."""
        return Range(self.bound * other.bound * max(count, 1), self.grain * other.grain)

    def summed(self, count: int) -> Range:
        """Of sums of so many."""
        return replace(self, bound=self.bound * max(count, 1))


ROUNDED = Range(4.0, 0.0)
"""Of functions that round."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value by the name that the program has for it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    range: Range = Range()

    def __str__(self) -> str:
        """The name, as it stands in the text of steps."""
        return self.name

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        return self.dtype in INTEGERS

    @property
    def is_real(self) -> bool:
        """Whether it holds numbers in an order."""
        return self.dtype in REALS

    @property
    def bits(self) -> float:
        """How many bits its largest numbers have."""
        return math.log2(max(self.range.bound, 1) / self.range.grain) if self.range.grain else math.inf

    @property
    def is_exact(self) -> bool:
        """Whether no rounding is in it, so that comparisons of it have one outcome."""
        return self.dtype not in _PRECISION or self.bits <= _PRECISION[self.dtype]

    @property
    def is_large(self) -> bool:
        """Whether it should be made smaller before anything else is done with it."""
        if self.dtype in _PRECISION:
            return self.range.bound > 2 ** _SPARE[self.dtype] or (self.is_exact and self.bits > _SPARE[self.dtype])
        return self.dtype in ("int32", "uint32") and self.range.bound > 1 << 15

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """Its type, as JAX has it."""
        return jax.ShapeDtypeStruct(self.shape, jnp.dtype(self.dtype))
