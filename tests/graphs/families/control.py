"""Loops, branches, calls and gradients of functions."""

from __future__ import annotations

from collections.abc import Sequence

from tests.graphs.families.moves import any_value, is_full
from tests.graphs.scope import Scope, step
from tests.graphs.steps import Block
from tests.graphs.values import Range, Value


def _carried(scope: Scope, first: Value) -> list[Value]:
    """One to three values for a loop to carry."""
    others = [scope.pick(any_value) for _ in range(scope.rng.randrange(3))]
    return [first, *(one for one in others if one is not None)]


def _invariant(value: Value) -> Range:
    """What a carried value holds in every turn: numbers without rounding stay so."""
    return Range(max(value.range.bound, 4.0), min(value.range.grain, 1.0) if value.is_exact else 0.0)


def _next(scope: Scope, parameter: Value) -> str:
    """What becomes of a carried value: another one of its type, kept within its held."""
    exact = parameter.is_exact
    there = [
        one
        for one in scope.values
        if (one.shape, one.dtype) == (parameter.shape, parameter.dtype) and one.is_exact >= exact
    ]
    value = scope.rng.choice(there[-3:])
    held = parameter.range
    if (value.range.bound <= held.bound and value.range.grain >= held.grain) or value.dtype == "bool":
        return str(value)
    if value.is_integer:
        return f"lax.rem({value}, lax.full_like({value}, 5))"
    if value.dtype == "complex64":
        return str(parameter)
    return f"jnp.clip(jnp.floor({value} * 0.5), -4, 4)" if exact else f"jnp.clip({value}, -{held.bound}, {held.bound})"


def _tuple(parts: Sequence[object]) -> str:
    return f"({''.join(f'{part}, ' for part in parts)})"


@step("scan", is_full, weight=2, smooth=True)
def scan(scope: Scope, v: Value) -> None:
    """Over the rows of a value, with others carried and closed over."""
    if not scope.may_nest or v.shape[0] > 8:
        return
    carried = _carried(scope, scope.pick(any_value) or v)
    ranges = [_invariant(one) for one in carried]
    inner_carried = [scope.parameter(one, held) for one, held in zip(carried, ranges, strict=True)]
    row = scope.writer.value(v.shape[1:], v.dtype, v.range)
    inner = scope.inner([*inner_carried, row])
    inner.write(scope.rng.randint(1, 5))
    given = inner.pick(lambda one: one.size * v.shape[0] <= 1024) or row
    following = _tuple([_next(inner, one) for one in inner_carried])
    block = Block(
        scope.writer.name("f"), tuple(map(str, [*inner_carried, row])), tuple(inner.steps), f"{following}, {given}"
    )
    call = f"lax.scan(lambda c, r: {block.name}(*c, r), {_tuple(carried)}, {v}, reverse={scope.rng.random() < 0.25})"
    scope.emit(f"jax.tree.leaves({call})", Range(), blocks=(block,), ranges=[*ranges, given.range])


@step("while", any_value, weight=1.5)
def loop(scope: Scope, v: Value) -> None:
    """So many turns; the number of the turn, or a value, says when to stop."""
    if not scope.may_nest:
        return
    carried = _carried(scope, v)
    ranges = [_invariant(one) for one in carried]
    parameters = [scope.parameter(one, held) for one, held in zip(carried, ranges, strict=True)]
    turn = scope.writer.value((), "int32", Range(4.0))
    inner = scope.inner([*parameters, turn])
    inner.write(scope.rng.randint(1, 5))
    following = _tuple([_next(inner, one) for one in parameters])
    block = Block(scope.writer.name("f"), tuple(map(str, [*parameters, turn])), tuple(inner.steps), following)
    turns = scope.rng.randint(0, 4)
    if scope.rng.random() < 0.5:
        call = f"lax.fori_loop(0, {turns}, lambda i, c: {block.name}(*c, i), {_tuple(carried)})"
    else:
        exact = v.is_exact and v.is_real
        test = "(c[1].sum(dtype=jnp.int32) != 3)" if exact and v.is_integer else "True"
        call = (
            f"lax.while_loop(lambda c: (c[0] < {turns}) & {test},"
            f" lambda c: (c[0] + 1, *{block.name}(*c[1:], c[0])), (0, *{_tuple(carried)}))"
        )
        ranges = [Range(8.0), *ranges]
    scope.emit(f"jax.tree.leaves({call})", Range(), blocks=(block,), ranges=ranges)


@step("branch", any_value, weight=1.5)
def branches(scope: Scope, v: Value) -> None:
    """Two or three functions of the same values, one of which is run."""
    if not scope.may_nest:
        return
    other = scope.pick(any_value) or v
    blocks, held = [], v.range
    for _ in "ab" if scope.rng.random() < 0.6 else "abc":
        parameters = [scope.parameter(v), scope.parameter(other)]
        inner = scope.inner(parameters)
        inner.write(scope.rng.randint(0, 3))
        given = inner.like(parameters[0])
        held = held.joined(given.range)
        blocks.append(inner.block(parameters, str(given)))
    scalar = scope.pick(lambda one: one.dtype == "int32" and one.size == 1)
    index = f"{scalar}.reshape(())" if scalar else str(scope.fitting((), "int32"))
    functions = ", ".join(block.name for block in blocks)
    scope.emit(f"lax.switch({index}, [{functions}], {v}, {other})", held, blocks=tuple(blocks))


@step("call", any_value, smooth=True)
def call(scope: Scope, v: Value) -> None:
    """A function called once or twice, or whose intermediate values are computed again."""
    if not scope.may_nest:
        return
    parameters = [scope.parameter(v, _invariant(v))]
    inner = scope.inner(parameters, closed=scope.rng.random() < 0.7)
    inner.write(scope.rng.randint(1, 4))
    block = inner.block(parameters, _next(inner, parameters[0]))
    held = parameters[0].range
    outer = scope.rng.choice(("jax.jit", "jax.jit", "jax.checkpoint"))
    scope.emit(f"{outer}({block.name})({v})", held, blocks=(block,))
    if scope.rng.random() < 0.4:
        scope.emit(f"jax.jit({block.name})(jax.jit({block.name})({v}))", held, blocks=(block,))


@step("map", lambda v: is_full(v) and v.rank > 1, weight=0.8)
def vectorized(scope: Scope, v: Value) -> None:
    """A function of the rows of a value, one after the other or all at once."""
    if not scope.may_nest or v.shape[0] > 8:
        return
    row = scope.writer.value(v.shape[1:], v.dtype, v.range)
    inner = scope.inner([row], only_smooth=True)
    inner.write(scope.rng.randint(1, 3))
    given = inner.values[-1]
    block = inner.block([row], str(given))
    text = scope.rng.choice((f"lax.map({block.name}, {v})", f"jax.vmap({block.name})({v})"))
    scope.emit(text, given.range, blocks=(block,))


@step("gradient", lambda v: is_full(v) and v.dtype == "float32", weight=1.5)
def gradient(scope: Scope, v: Value) -> None:
    """Of a sum of squares, by two values; some through a custom rule or computed again."""
    if not scope.may_nest:
        return
    other = scope.pick(lambda one: one.dtype == "float32") or v
    parameters = [scope.parameter(v), scope.parameter(other)]
    inner = scope.inner(parameters, only_smooth=True, closed=True)
    inner.write(scope.rng.randint(1, 4))
    floats = [one for one in inner.values if one.dtype == "float32"]
    block = inner.block(parameters, f"jnp.sum(jnp.sin({floats[-1]}))")
    function = f"jax.checkpoint({block.name})" if scope.rng.random() < 0.4 else block.name
    call = f"jax.tree.map(lambda t: jnp.clip(t, -8, 8), jax.grad({function}, (0, 1))({v}, {other}))"
    scope.emit(f"jax.tree.leaves({call})", Range(8.0, 0.0), blocks=(block,))
