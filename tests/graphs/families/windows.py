"""Windows: pooling and its gradients, cumulative sums, convolutions."""

from __future__ import annotations

import math

from tests.graphs.families.moves import any_dim, is_full
from tests.graphs.families.pointwise import is_sharp
from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value

_START = {"lax.add": "0", "lax.max": "-100", "lax.min": "100"}


def _is_pooled(value: Value) -> bool:
    return is_full(value) and value.rank <= 4 and value.dtype in ("float32", "int32", "bfloat16")


@step("window", _is_pooled, weight=2)
def reduce_window(scope: Scope, v: Value) -> None:
    """Windows of any size, stride, padding and dilation along one dimension or two."""
    rng = scope.rng
    size, stride, dilation, padding = [1] * v.rank, [1] * v.rank, [1] * v.rank, [(0, 0)] * v.rank
    for dim in rng.sample(range(v.rank), rng.randint(1, min(2, v.rank))):
        size[dim] = rng.randint(1, min(4, v.shape[dim]))
        stride[dim] = rng.choice((1, 1, 2, 3, size[dim]))
        if (size[dim] - 1) * 2 < v.shape[dim] and rng.random() < 0.2:
            dilation[dim] = 2
        padding[dim] = rng.choice(((0, 0), (0, 0), (1, 1), (0, size[dim] - 1), (size[dim] - 1, 0)))
    kind = rng.choice(tuple(_START))
    start = f"jnp.array({_START[kind]}, {v.dtype!r})"
    text = f"lax.reduce_window({v}, {start}, {kind}, {tuple(size)}, {tuple(stride)}, {tuple(padding)}"
    held = v.range.summed(math.prod(size)) if kind == "lax.add" else v.range.joined(Range(100.0))
    scope.emit(f"{text}, window_dilation={tuple(dilation)})", held)


@step("pool gradient", lambda v: _is_pooled(v) and v.dtype == "float32" and v.is_exact and v.rank > 1, weight=1)
def pooling_gradient(scope: Scope, v: Value) -> None:
    """`select_and_scatter`: numbers without rounding have the same places in every order."""
    rng, dim = scope.rng, any_dim(scope, v)
    length = rng.randint(1, min(3, v.shape[dim]))
    size = tuple(length if at == dim else 1 for at in range(v.rank))
    stride = tuple(rng.choice((1, length)) if at == dim else 1 for at in range(v.rank))
    padding = rng.choice(("VALID", "SAME"))
    pooled = f"lax.reduce_window(t, -jnp.inf, lax.max, {size}, {stride}, {padding!r})"
    scope.emit(f"jax.grad(lambda t: ({pooled} * 2).sum())({v})", Range(2.0 * length))


@step("cumulative", lambda v: is_full(v) and v.dtype in ("float32", "int32", "bfloat16"), weight=1.5, smooth=True)
def cumulative(scope: Scope, v: Value) -> None:
    dim, reverse = any_dim(scope, v), scope.rng.random() < 0.3
    kind = scope.rng.choice(("cumsum", "cummax", "cummin", "cumsum"))
    held = v.range.summed(v.shape[dim]) if kind == "cumsum" else v.range
    scope.emit(f"lax.{kind}({v}, {dim}, reverse={reverse})", held)


@step("cumulative", lambda v: is_full(v) and v.is_float, weight=0.5)
def cumulative_exponential(scope: Scope, v: Value) -> None:
    scope.emit(f"lax.cumlogsumexp({v}, {any_dim(scope, v)})", Range(v.range.bound + 8, 0.0))


@step("associative scan", lambda v: is_full(v) and is_sharp(v), weight=0.7)
def associative_scan(scope: Scope, v: Value) -> None:
    dim, reverse = any_dim(scope, v), scope.rng.random() < 0.3
    kind = scope.rng.choice(("jnp.add", "jnp.maximum"))
    held = v.range.summed(v.shape[dim]) if kind == "jnp.add" else v.range
    scope.emit(f"lax.associative_scan({kind}, {v}, reverse={reverse}, axis={dim})", held)


@step("convolution", lambda v: v.rank in (3, 4) and is_full(v) and v.dtype == "float32", weight=3, smooth=True)
def convolution(scope: Scope, v: Value) -> None:
    """Batch, features and space in any order; strides, dilations, padding and groups."""
    rng, space = scope.rng, v.rank - 2
    spatial = "HW"[:space]
    left = "".join(rng.sample("NC" + spatial, v.rank))
    right = "".join(rng.sample("IO" + spatial, v.rank))
    out = "".join(rng.sample("NC" + spatial, v.rank))
    length = dict(zip(left, v.shape, strict=True))
    groups = rng.choice([g for g in (1, 1, 2, 3, length["C"]) if length["C"] % g == 0])
    batches = rng.choice([g for g in (1, 1, 1, 2, 3) if length["N"] % g == 0 and (g == 1 or groups == 1)])
    kernel = {"I": length["C"] // groups, "O": groups * batches * rng.randint(1, 3)}
    kernel |= {dim: rng.randint(1, 3) for dim in spatial}
    base = [rng.choice((1, 1, 1, 2)) for _ in spatial]
    dilation = [rng.choice((1, 1, 1, 2)) for _ in spatial]
    padding = []
    for dim, inner, spread in zip(spatial, base, dilation, strict=True):
        missing = (kernel[dim] - 1) * spread + 1 - ((length[dim] - 1) * inner + 1)
        padding.append((max(missing, rng.choice((0, 1, 2))), rng.choice((0, 1, -1 if missing < -1 else 0))))
    other = scope.fitting([kernel[dim] for dim in right], v.dtype)
    text = (
        f"lax.conv_general_dilated({v}, {other}, {tuple(rng.choice((1, 1, 2)) for _ in spatial)}, {tuple(padding)},"
        f" {tuple(base)}, {tuple(dilation)}, ({left!r}, {right!r}, {out!r}),"
        f" feature_group_count={groups}, batch_group_count={batches})"
    )
    scope.emit(text, v.range.times(other.range, math.prod(kernel.values()) // kernel["O"]))


@step("convolution gradient", lambda v: v.rank == 3 and is_full(v) and v.dtype == "float32" and v.size < 512, weight=1)
def convolution_gradient(scope: Scope, v: Value) -> None:
    """By the image and by the kernel."""
    rng, features = scope.rng, v.shape[1]
    other = scope.fitting([rng.randint(1, 3), features, rng.randint(1, 3)], v.dtype)
    if not is_full(other):
        return
    options = f"({rng.choice((1, 2))},), ((1, 2),), dimension_numbers=('HCN', 'HIO', 'NCH')"
    text = f"jax.grad(lambda t, u: (lax.conv_general_dilated(t, u, {options}) * 2).sum(), (0, 1))({v}, {other})"
    count = v.size + other.size
    held = v.range.joined(other.range).summed(2 * count)
    scope.emit(f"jax.tree.leaves({text})", held)
