"""Numbers in other places: broadcasts, transposes, reshapes, slices, pads, concatenations."""

from __future__ import annotations

import math

from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value


def any_value(_: Value) -> bool:
    return True


def has_rank(value: Value) -> bool:
    return value.rank > 0


def is_full(value: Value) -> bool:
    """Of some dimensions, none of them empty."""
    return value.rank > 0 and value.size > 0


def any_dim(scope: Scope, v: Value) -> int:
    return scope.rng.randrange(v.rank)


@step("broadcast", any_value, weight=1.5, smooth=True)
def broadcast(scope: Scope, v: Value) -> None:
    rank = max(v.rank, min(4, v.rank + scope.rng.randrange(1, 3)))
    dims = sorted(scope.rng.sample(range(rank), v.rank))
    shape = [scope.rng.choice(scope.writer.sizes) for _ in range(rank)]
    for size, dim in zip(v.shape, dims, strict=True):
        shape[dim] = size
    if math.prod(shape) <= 2048:
        scope.emit(f"lax.broadcast_in_dim({v}, {tuple(shape)}, {tuple(dims)})", v.range)


@step("broadcast", has_rank, weight=1, smooth=True)
def outer(scope: Scope, v: Value) -> None:
    other = scope.pick(lambda one: one.dtype == v.dtype and one.rank == 1 and one.is_real)
    if other is not None and v.is_real and v.rank < 4:
        scope.emit(f"{v}[..., None] + {other}", v.range.plus(other.range))


@step("transpose", lambda v: v.rank > 1, weight=1.5, smooth=True)
def transpose(scope: Scope, v: Value) -> None:
    order = list(range(v.rank))
    scope.rng.shuffle(order)
    scope.emit(f"jnp.transpose({v}, {tuple(order)})", v.range)


@step("reshape", has_rank, weight=2, smooth=True)
def reshape(scope: Scope, v: Value) -> None:
    shape = list(v.shape)
    dim = any_dim(scope, v)
    kind = scope.rng.random()
    if kind < 0.4 and v.rank > 1:
        dim = min(dim, v.rank - 2)
        shape[dim : dim + 2] = [shape[dim] * shape[dim + 1]]
    elif kind < 0.8:
        parts = [part for part in range(1, shape[dim] + 1) if shape[dim] % part == 0]
        part = scope.rng.choice(parts or [1])
        shape[dim : dim + 1] = [part, shape[dim] // part]
    else:
        shape = [v.size]
    scope.emit(f"{v}.reshape({tuple(shape)})", v.range)


@step("slice", is_full, weight=2, smooth=True)
def slices(scope: Scope, v: Value) -> None:
    rng, parts = scope.rng, []
    for size in v.shape:
        start = 0 if rng.random() < 0.5 else rng.randrange(size)
        stop = size if rng.random() < 0.5 else rng.randint(start + 1, size)
        parts.append((start, stop, rng.choice((1, 1, 1, 2, 3))))
    text = ", ".join(f"{start}:{stop}:{stride}" for start, stop, stride in parts)
    scope.emit(f"{v}[{text}]", v.range)


@step("pad", has_rank, weight=1.5, smooth=True)
def pad(scope: Scope, v: Value) -> None:
    rng, config = scope.rng, []
    for size in v.shape:
        low, high, interior = (rng.choice((0, 0, 0, 1, 2, 3, -1)) for _ in range(3))
        interior = max(0, interior) if rng.random() < 0.4 else 0
        full = size + interior * max(0, size - 1)
        if full + low + high < (0 if rng.random() < 0.02 else 1):
            low = high = 0
        config.append((low, high, interior))
    value = rng.choice((0, 1, 2)) if v.is_real else 0
    scope.emit(f"lax.pad({v}, jnp.array({value}, {v.dtype!r}), {tuple(config)})", v.range.joined(Range(2.0)))


@step("concatenate", has_rank, weight=1.5, smooth=True)
def concatenate(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)

    def fits(one: Value) -> bool:
        rest = one.shape[:dim] + one.shape[dim + 1 :]
        return (one.rank, one.dtype, rest) == (v.rank, v.dtype, v.shape[:dim] + v.shape[dim + 1 :])

    others = [scope.pick(fits) or v for _ in range(scope.rng.choice((1, 1, 2)))]
    held = v.range
    for other in others:
        held = held.joined(other.range)
    scope.emit(f"jnp.concatenate([{v}, {', '.join(map(str, others))}], {dim})", held)


@step("concatenate", lambda v: v.rank < 4, weight=0.6, smooth=True)
def stack(scope: Scope, v: Value) -> None:
    other = scope.like(v)
    at = scope.rng.randint(0, v.rank)
    scope.emit(f"jnp.stack([{v}, {other}, {v}], {at})", v.range.joined(other.range))


@step("reverse", has_rank, smooth=True)
def reverse(scope: Scope, v: Value) -> None:
    dims = sorted(scope.rng.sample(range(v.rank), scope.rng.randint(1, v.rank)))
    scope.emit(f"jnp.flip({v}, {tuple(dims)})", v.range)


@step("roll", is_full, smooth=True)
def roll(scope: Scope, v: Value) -> None:
    scope.emit(f"jnp.roll({v}, {scope.rng.randint(-3, 5)}, {any_dim(scope, v)})", v.range)


@step("concatenate", is_full, weight=0.6)
def tile(scope: Scope, v: Value) -> None:
    dim, count = any_dim(scope, v), scope.rng.choice((2, 3))
    reps = tuple(count if at == dim else 1 for at in range(v.rank))
    text = scope.rng.choice((f"jnp.tile({v}, {reps})", f"jnp.repeat({v}, {count}, {dim})"))
    scope.emit(text, v.range)


@step("iota", lambda v: v.rank > 1 and v.is_real, weight=0.6, smooth=True)
def triangle(scope: Scope, v: Value) -> None:
    scope.emit(f"{scope.rng.choice(('jnp.tril', 'jnp.triu'))}({v}, {scope.rng.randint(-1, 1)})", v.range)


@step("iota", has_rank, weight=0.6)
def iota(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    dtype = scope.rng.choice(("int32", "float32", "int8"))
    scope.emit(f"lax.broadcasted_iota(jnp.{dtype}, {v.shape}, {dim})", Range(float(max(1, v.shape[dim]))))
