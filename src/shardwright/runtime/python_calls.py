"""What a program needs to call functions of Python: these, and the effects by which JAX knows of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
from jax.experimental import io_callback

__all__ = ["NO_CALLS", "PythonCalls"]


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """The functions of Python that a module calls.

    Attributes:
        functions: By the numbers that the module has for them.
        unordered: JAX's effects of those that need not follow each other.
        is_ordered: Whether some must.
    """

    functions: tuple[Any, ...] = ()
    unordered: tuple[Any, ...] = ()
    is_ordered: bool = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.functions)

    @property
    def order(self) -> Any:
        """The effect by which JAX keeps them in order, also on several devices; `None` where they need none."""
        return _order() if self.is_ordered else None

    @property
    def effects(self) -> set[Any]:
        """All of their effects."""
        return {*self.unordered, self.order} if self.is_ordered else {*self.unordered}

    @property
    def have_derivative(self) -> bool:
        """Whether JAX differentiates what has these effects: what only shows values, it does."""
        return not self.is_ordered and set(map(type, self.unordered)) <= _shown()


NO_CALLS = PythonCalls()


@cache
def _order() -> Any:
    """JAX has no public name for this effect, and gives it to what has it.

    That of `debug.print(ordered=True)` is another, which it refuses on several devices.
    """
    (effect,) = jax.make_jaxpr(lambda: io_callback(_nothing, None, ordered=True))().effects
    return effect


@cache
def _shown() -> frozenset[type]:
    return frozenset(map(type, jax.make_jaxpr(lambda: jax.debug.callback(_nothing))().effects))


def _nothing() -> None:
    """What nobody calls."""
