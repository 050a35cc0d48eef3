"""Compiled programs as functions that JAX transforms: compiled into others, differentiated, mapped.

Where it is part of another function the program is what it is by itself. A derivative, and a batch, are those of the
function that it was made from, with the shardings of its arguments and results as constraints, to which XLA's
partitioner keeps: what sends is chosen for the one that was compiled, and not for these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.custom_batching import custom_vmap

from shardwright.errors import ShardingError
from shardwright.runtime.call import JaxCall
from shardwright.runtime.inlined import Inlined

__all__ = ["constrained", "of_arrays", "transformable"]

Leaves = Callable[..., tuple[Any, ...]]
"""Of the leaves of a function's arguments those of its results."""


def transformable(program: Inlined, call: JaxCall, shardings: Sequence[Any]) -> Callable[..., Any]:
    """The function of a program, called as the one it was made from.

    Arguments:
        program: Of the arguments of the module its results.
        call: How the function is called.
        shardings: How JAX has each argument of the module and then each result.
    """
    original = constrained(call, shardings)

    if call.callbacks.effects:
        return _with_effects(program, call, original)

    @custom_vmap
    def mapped(*leaves: Any) -> tuple[Any, ...]:
        return tuple(call.results(program(*call.arguments(leaves))))

    @mapped.def_vmap
    def _(axis_size: int, is_mapped: Sequence[bool], *leaves: Any) -> Any:
        axes = [0 if one else None for one in is_mapped]
        results = jax.vmap(original, in_axes=axes, axis_size=axis_size)(*leaves)
        return results, (True,) * len(results)

    derived = jax.custom_jvp(mapped)

    @derived.defjvp
    def _(leaves: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        return jax.jvp(original, leaves, tangents)

    def function(*args: Any, **kwargs: Any) -> Any:
        results: Any = jax.jit(derived)(*call.leaves(args, kwargs))
        return jax.tree.unflatten(call.out_tree, results)

    function.__name__ = function.__qualname__ = call.name
    return function


def _with_effects(program: Inlined, call: JaxCall, original: Leaves) -> Callable[..., Any]:
    """The function of a program with effects: JAX maps none, and differentiates those that only show values."""

    def leaves_of(*leaves: Any) -> tuple[Any, ...]:
        return tuple(call.results(program(*call.arguments(leaves))))

    derived: Any = leaves_of
    if call.callbacks.have_derivative:
        derived = jax.custom_jvp(leaves_of)
        derived.defjvp(lambda leaves, tangents: jax.jvp(original, leaves, tangents))

    def function(*args: Any, **kwargs: Any) -> Any:
        results: Any = jax.jit(derived)(*call.leaves(args, kwargs))
        return jax.tree.unflatten(call.out_tree, results)

    function.__name__ = function.__qualname__ = call.name
    return function


def of_arrays(program: Inlined) -> Callable[..., Any]:
    """The function of a program that came from none, of arrays, which has no derivative."""

    @jax.custom_jvp
    def main(*arrays: Any) -> tuple[Any, ...]:
        return program(*arrays)

    @main.defjvp
    def _(arrays: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        raise ShardingError(
            "the program cannot be differentiated",
            cause="it came from text or a file, and there is no function that JAX knows a derivative of",
            remedy="lower the derivative: jax.jit(jax.grad(f)).lower(…).as_text(debug_info=True)",
        )

    return main


def constrained(call: JaxCall, shardings: Sequence[Any]) -> Leaves:
    """The function that was lowered, its arguments and results constrained to these shardings, of leaves.

    Arguments:
        call: How it is called, and what JAX traced.
        shardings: How JAX has each argument of the module and then each result.
    """
    of_arguments, of_results = shardings[: len(call.kept)], shardings[len(call.kept) :]

    def original(*leaves: Any) -> tuple[Any, ...]:
        if call.traced is None:
            raise ShardingError(
                f"{call.name} cannot be differentiated or mapped here",
                cause="the function is not at hand: it was lowered elsewhere, or came in a pickle",
                remedy="make the program from the function itself, or shard the derivative: sw.jit(jax.grad(f), mesh)",
            )
        given = call.constrained_leaves(leaves, of_arguments)
        args, kwargs = jax.tree.unflatten(call.in_tree, given)
        results = jax.tree.leaves(call.traced(*args, **kwargs))
        return tuple(call.constrained_results(results, of_results))

    return jax.jit(original)
