"""A function of JAX with the completed shardings of a plan as constraints, for those who keep XLA's partitioner.

The function is evaluated equation by equation, as JAX traced it, and what an equation gives is constrained to how the
plan has it. Which tensor of the plan that is, is found by lowering it once more with a name around each equation: of
the ops under that name the last one that has the type of what the equation gives makes it. What stands inside of loops
and of functions with derivatives of their own is left to XLA, between what goes in and what comes out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import jax
import numpy as np

from shardwright.frontends.annotate import annotate
from shardwright.frontends.jax import lower
from shardwright.ir.graph import Graph, Op
from shardwright.propagation import propagate
from shardwright.runtime.arrays import numpy_dtype
from shardwright.runtime.call import JaxCall
from shardwright.runtime.placement import laid_out, named_shardings
from shardwright.sharding import TensorSharding

__all__ = ["constrained"]

_SCOPE = "shardwright."
_NUMBER = re.compile(rf"{re.escape(_SCOPE)}(\d+)")
_CALLS = ("jit", "pjit")
"""Equations that call a function, by their names in several jaxes."""

Shardings = Sequence[jax.sharding.NamedSharding]

Visit = Callable[[int, Any, Callable[[], list[Any]]], list[Any]]
"""Of the number of an equation, itself, and what evaluates it: what it gives."""


def constrained(
    call: JaxCall, annotated: Graph, boundary: tuple[Shardings, Shardings], strategy: str, conservative: bool
) -> Callable[..., Any]:
    """The function; see `Plan.constrained`.

    Arguments:
        call: How it is called, and what JAX traced.
        annotated: The program with the shardings that users gave.
        boundary: How JAX has each argument and each result of the module.
        strategy: How it was propagated.
        conservative: Whether only whole axes flowed.
    """
    closed = getattr(call.traced, "jaxpr", None)  # of what was exported there is none
    inside = {} if closed is None else _inside(call, annotated, strategy, conservative)

    def visit(number: int, equation: Any, evaluate: Callable[[], list[Any]]) -> list[Any]:
        values = evaluate()
        known = inside.get(number, [None] * len(values))
        return [value if one is None else laid_out(value, one) for value, one in zip(values, known, strict=True)]

    def function(*args: Any, **kwargs: Any) -> Any:
        given = call.constrained_leaves(call.leaves(args, kwargs), boundary[0])
        if closed is None:
            args, kwargs = jax.tree.unflatten(call.in_tree, given)
            returned = jax.tree.leaves(call.traced(*args, **kwargs))
        else:
            returned = _evaluated(closed, given, visit, count())
        return jax.tree.unflatten(call.out_tree, call.constrained_results(returned, boundary[1]))

    function.__name__ = function.__qualname__ = call.name
    return function


def _evaluated(closed: Any, leaves: list[Any], visit: Visit, numbers: Iterator[int]) -> list[Any]:
    """What a traced function returns of these leaves; functions that it calls are evaluated likewise."""
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *leaves), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if hasattr(variable, "val") else values[variable]

    for equation in jaxpr.eqns:
        number, given = next(numbers), list(map(read, equation.invars))

        def evaluate(equation: Any = equation, given: list[Any] = given) -> list[Any]:
            if equation.primitive.name in _CALLS and _is_plain(equation.params):
                return _evaluated(equation.params["jaxpr"], given, visit, numbers)
            with equation.ctx.manager:
                made = equation.primitive.bind(*given, **equation.primitive.get_bind_params(equation.params))
            return list(made) if equation.primitive.multiple_results else [made]

        values.update(zip(equation.outvars, visit(number, equation, evaluate), strict=True))
    return list(map(read, jaxpr.outvars))


def _is_plain(params: dict[str, Any]) -> bool:
    """Whether a call says nothing of shardings, which would be lost."""
    said = (*params.get("in_shardings", ()), *params.get("out_shardings", ()))
    return not any(isinstance(one, jax.sharding.Sharding) for one in said)


def _inside(
    call: JaxCall, annotated: Graph, strategy: str, conservative: bool
) -> dict[int, list[jax.sharding.NamedSharding | None]]:
    """How JAX has what each equation gives, by its number; `None` where that is not known."""
    equations: dict[int, Any] = {}

    def visit(number: int, equation: Any, evaluate: Callable[[], list[Any]]) -> list[Any]:
        equations[number] = equation
        with jax.named_scope(f"{_SCOPE}{number}"):
            return evaluate()

    def function(*leaves: Any) -> list[Any]:
        return _evaluated(call.traced.jaxpr, list(leaves), visit, count())

    source, _ = lower(function, call.in_leaves, {})
    given = {leaf: annotated.shardings[value] for leaf, value in zip(call.kept, _arguments(annotated), strict=True)}
    again = annotate(
        source.graph, annotated.mesh, _said(given), call.name, _said(dict(enumerate(annotated.main.result_shardings)))
    )
    graph = propagate(again, strategy=strategy, conservative=conservative, as_compiled=True)
    found = {
        number: [_made(graph, ops, equations[number], variable) for variable in equations[number].outvars]
        for number, ops in _by_scope(graph).items()
    }
    known = [one for row in found.values() for one in row if one is not None]
    named = iter(named_shardings(known, call.on(annotated.mesh)))
    return {number: [None if one is None else next(named) for one in row] for number, row in found.items()}


def _arguments(graph: Graph) -> list[int]:
    return list(graph.main.block.arguments)


def _said(shardings: dict[int, TensorSharding | None]) -> dict[int, TensorSharding]:
    return {number: one for number, one in shardings.items() if one is not None}


def _by_scope(graph: Graph) -> dict[int, list[Op]]:
    """The ops of the body by the number of the innermost equation that they stand for."""
    ops: dict[int, list[Op]] = {}
    for op in graph.main.block.ops:
        numbers = _NUMBER.findall(graph.locations[op.location].name)
        if numbers:
            ops.setdefault(int(numbers[-1]), []).append(op)
    return ops


def _made(graph: Graph, ops: list[Op], equation: Any, variable: Any) -> TensorSharding | None:
    """The sharding of what an equation gives, by its type, which must be that of nothing else that it gives."""
    aval = variable.aval
    if not hasattr(aval, "shape") or sum(other.aval == aval for other in equation.outvars) > 1:
        return None
    for op in reversed(ops):
        for value in op.results:
            type, sharding = graph.types[value], graph.shardings[value]
            if type.is_tensor and type.dims == aval.shape and _is_of(type.dtype, aval.dtype):
                return None if sharding is None or sharding.mesh.is_maximal else _for_jax(sharding, type.dims)
    return None


def _for_jax(sharding: TensorSharding, dims: tuple[int, ...]) -> TensorSharding:
    """What divides of a sharding, and awaits nothing."""
    return sharding.closed().with_axes(sharding.axes).evenly_dividing(dims)


def _is_of(dtype: str, other: Any) -> bool:
    """Whether an element type of MLIR is one of JAX; of random keys none is."""
    return not jax.numpy.issubdtype(other, jax.dtypes.extended) and bool(other == np.dtype(numpy_dtype(dtype)))
