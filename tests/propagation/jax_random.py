"""Seeded random programs of JAX: functions jitted within functions, on matrices of one size.

They are traced where there are eight devices only; see `jax_compiled`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.propagation.jax_programs import Program, argument

__all__ = ["random_jax_program", "random_loop"]

_SPECS = (P("data"), P(None, "model"), P("model", "data"), P(None, "data"), P("model"), P("data", "model"))
_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda x, y: x @ y,
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "sine": lambda x, y: jnp.sin(x),
    "add_reduced": lambda x, y: x + jnp.sum(y, axis=0),
    # Without the cosine two of them in a row would be none to XLA.
    "transpose": lambda x, y: jnp.cos(x.T),
}
_LEVELS = 3


def random_jax_program(seed: int) -> Program:
    """A function of two matrices, with two results, that calls a jitted function, which calls a further one; for odd
    seeds the gradients of such a function."""
    generator = random.Random(seed)
    function: Any = None
    for level in reversed(range(_LEVELS)):
        function = _function(generator, function, results=1 if level else 2)
    arguments = [argument(16, 16, at=generator.choice(_SPECS)) for _ in range(2)]
    return Program(_gradients(function) if seed % 2 else function, arguments)


def _function(generator: random.Random, called: Any, results: int) -> Any:
    """A few random ops, and calls of `called` where there is such a function; jitted where it gives one result."""
    names = [*_OPS, "call"] if called else [*_OPS]
    steps = [(generator.choice(names), generator.random(), generator.random()) for _ in range(generator.randint(3, 6))]

    def run(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, first, second in steps:
            operands = (values[int(at * len(values))] for at in (first, second))
            values.append(called(*operands) if name == "call" else _OPS[name](*operands))
        return values[-1] if results == 1 else values[-results:]

    return jax.jit(run) if results == 1 else run


def _gradients(function: Any) -> Any:
    def loss(x: Any, y: Any) -> Any:
        first, second = function(x, y)
        return ((first * second) ** 2).sum()

    return jax.grad(loss, argnums=(0, 1))


def random_loop(seed: int) -> Program:
    """A loop that reads two values made outside of it, which are read behind it too; for odd seeds its gradients."""
    generator = random.Random(seed)
    before, inside, behind = (_function(generator, None, results=2) for _ in range(3))

    def function(x: Any, y: Any) -> Any:
        first, second = before(x, y)

        def turn(carried: Any, _: None) -> tuple[Any, None]:
            one, other = inside(carried, first)
            return jnp.tanh(one @ second + other), None

        carried, _ = jax.lax.scan(turn, x, None, length=3)
        return behind(carried + first, second)

    arguments = [argument(16, 16, at=generator.choice((*_SPECS, None))) for _ in range(2)]
    return Program(_gradients(function) if seed % 2 else function, arguments)
