"""Products that are summed, and sums, largest numbers and their places along dimensions."""

from __future__ import annotations

import math

from tests.graphs.families.moves import any_dim, has_rank, is_full
from tests.graphs.families.pointwise import is_sharp
from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value

_LETTERS = "abcdefgh"


def _is_factor(value: Value) -> bool:
    return 0 < value.rank <= 3 and value.dtype in ("float32", "bfloat16", "int32", "complex64")


@step("dot", _is_factor, weight=4, smooth=True)
def dot_general(scope: Scope, v: Value) -> None:
    """Any dimensions contracted and batched, the other operand in any order."""
    rng = scope.rng
    kinds = [rng.choice("cfbf") for _ in v.shape]
    if "c" not in kinds:
        kinds[any_dim(scope, v)] = "c"
    shared = [dim for dim, kind in enumerate(kinds) if kind in "cb"]
    free = [rng.choice(scope.writer.sizes) for _ in range(rng.choice((0, 1, 1)))]
    order = [*shared, *(-1 - number for number in range(len(free)))]
    rng.shuffle(order)
    shape = [v.shape[dim] if dim >= 0 else free[-1 - dim] for dim in order]
    if math.prod(shape) > 2048:
        return
    other = scope.fitting(shape, v.dtype)
    pairs = {kind: [dim for dim in shared if kinds[dim] == kind] for kind in "cb"}
    text = ", ".join(f"({tuple(pairs[kind])}, {tuple(order.index(dim) for dim in pairs[kind])})" for kind in "cb")
    count = math.prod(v.shape[dim] for dim in pairs["c"]) * (2 if v.dtype == "complex64" else 1)
    scope.emit(f"lax.dot_general({v}, {other}, ({text}))", v.range.times(other.range, count))


@step("einsum", _is_factor, smooth=True)
def einsum(scope: Scope, v: Value) -> None:
    """Letters of two operands at random, any of them summed."""
    other = scope.pick(lambda one: _is_factor(one) and one.dtype == v.dtype)
    if other is None:
        return
    left = list(_LETTERS[: v.rank])
    sizes = dict(zip(left, v.shape, strict=True))
    right: list[str] = []
    for size in other.shape:
        same = [letter for letter in left if sizes[letter] == size and letter not in right]
        right.append(scope.rng.choice(same) if same else _LETTERS[4 + len(right)])
        sizes[right[-1]] = size
    kept = [letter for letter in sizes if scope.rng.random() < 0.6]
    scope.rng.shuffle(kept)
    count = math.prod(size for letter, size in sizes.items() if letter not in kept)
    text = f"jnp.einsum('{''.join(left)},{''.join(right)}->{''.join(kept)}', {v}, {other})"
    if math.prod(sizes.values()) <= 1 << 16:
        scope.emit(text, v.range.times(other.range, count))


@step("reduce", lambda v: has_rank(v) and (v.is_real or v.dtype == "complex64"), weight=2, smooth=True)
def sums(scope: Scope, v: Value) -> None:
    dims = tuple(sorted(scope.rng.sample(range(v.rank), scope.rng.randint(1, v.rank))))
    count = math.prod(v.shape[dim] for dim in dims)
    kind = scope.rng.choice(("jnp.sum", "jnp.sum", "jnp.mean"))
    held = v.range.summed(count) if kind == "jnp.sum" else Range(v.range.bound, 0.0)
    if kind == "jnp.mean" and (not v.is_float or not v.size):
        return
    dtype = f", dtype={v.dtype!r}" if v.is_integer else ""
    scope.emit(f"{kind}({v}, {dims}, keepdims={scope.rng.random() < 0.2}{dtype})", held)


@step("reduce", lambda v: is_full(v) and v.is_real, weight=2, smooth=True)
def extremes(scope: Scope, v: Value) -> None:
    dims = tuple(sorted(scope.rng.sample(range(v.rank), scope.rng.randint(1, v.rank))))
    scope.emit(f"{scope.rng.choice(('jnp.max', 'jnp.min'))}({v}, {dims})", v.range)


@step("reduce", lambda v: is_full(v) and v.dtype == "bool", weight=1.5)
def logic(scope: Scope, v: Value) -> None:
    scope.emit(f"{scope.rng.choice(('jnp.any', 'jnp.all'))}({v}, {any_dim(scope, v)})", Range(1.0))


@step("reduce", lambda v: has_rank(v) and v.is_integer, weight=0.7)
def bitwise(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    kind = scope.rng.choice(("and", "or", "xor"))
    scope.emit(f"lax.reduce_{kind}({v}, ({dim},))", Range(2.0**32))


@step("reduce", lambda v: is_full(v) and v.dtype in ("int32", "int8"), weight=0.5)
def product(scope: Scope, v: Value) -> None:
    scope.emit(f"jnp.prod({v}, {any_dim(scope, v)}, dtype={v.dtype!r})", Range(2.0**31))


@step("argmax", lambda v: is_full(v) and is_sharp(v), weight=1.5)
def places(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    kind = scope.rng.choice(("jnp.argmax", "jnp.argmin"))
    scope.emit(f"{kind}({v}, {dim})", Range(float(max(1, v.shape[dim]))))


@step("softmax", lambda v: is_full(v) and v.is_float, smooth=True)
def softmax(scope: Scope, v: Value) -> None:
    kind = scope.rng.choice(("jax.nn.softmax", "jax.nn.log_softmax", "jax.nn.logsumexp", "jnp.var"))
    scope.emit(f"{kind}({v}, {any_dim(scope, v)})", Range(max(8.0, v.range.bound), 0.0))
