"""Programs as users of JAX's libraries write them: each a function, its arguments, and shardings of some of them.

A program is registered with the packages that it needs; what of these is not installed is the reason for which it is
skipped. Values are small and drawn from fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

__all__ = ["PROGRAMS", "Case", "Entry"]


@dataclass(frozen=True)
class Case:
    """A call to shard.

    Attributes:
        function: What is called, jitted by a library or not.
        args: Its arguments.
        shardings: As of `Program.shard`.
        options: As of `from_jax`.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    shardings: Any
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """A program by name: what makes it, what it needs, and whether it is long to compile."""

    make: Callable[[], Case]
    packages: tuple[str, ...]
    is_long: bool

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed."""
        return tuple(package for package in self.packages if find_spec(package) is None)


PROGRAMS: dict[str, Entry] = {}
BATCH, WIDTH = 16, 8


def program(*packages: str, long: bool = False) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register the program that a function makes, under its name."""

    def register(make: Callable[[], Case]) -> Callable[[], Case]:
        PROGRAMS[make.__name__] = Entry(make, packages, long)
        return make

    return register


def batch(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape or (BATCH, WIDTH)), jnp.float32)


def by_patterns(**more: Any) -> dict[Any, Any]:
    """The batch over `data`, and what has `kernel` at its end over `model`."""
    return {"x": "data", r"kernel(/value)?$": P(None, "model"), **more}
