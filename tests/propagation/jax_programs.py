"""Programs as users of JAX write them, with the shardings that they give: layers, losses, loops, and functions jitted
within functions.

They are traced where there are eight devices only; see `jax_compiled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

__all__ = ["PROGRAMS", "Argument", "Program", "argument", "sharding"]


@dataclass(frozen=True)
class Argument:
    """An argument of a program.

    Attributes:
        value: Its shape and element type.
        spec: The sharding that the user gives; `None` leaves it to the compiler.
    """

    value: jax.ShapeDtypeStruct
    spec: P | None


@dataclass(frozen=True)
class Program:
    """A function and what it is called with; `out_spec` is the sharding given for its only result, if any."""

    function: Callable[..., Any]
    arguments: Sequence[Argument]
    out_spec: P | None = None


PROGRAMS: dict[str, Program] = {}


@cache
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))


def sharding(*spec: Any) -> NamedSharding:
    return NamedSharding(mesh(), P(*spec))


def argument(*shape: int, at: P | None = None, dtype: Any = jnp.float32) -> Argument:
    return Argument(jax.ShapeDtypeStruct(shape, dtype), at)


def program(*arguments: Argument, out: P | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep a function as one of the programs."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = Program(function, arguments, out)
        return function

    return keep


def constrained(value: Any, *spec: Any) -> Any:
    return lax.with_sharding_constraint(value, sharding(*spec))


X = argument(16, 32, at=P("data"))
TOKENS = argument(8, 16, at=P("data"), dtype=jnp.int32)


@program(X, argument(32, 64, at=P(None, "model")), argument(64, 32), argument(64), argument(32))
def mlp(x: Any, w1: Any, w2: Any, b1: Any, b2: Any) -> Any:
    return jax.nn.gelu(x @ w1 + b1) @ w2 + b2


@program(argument(8, 16, 32, at=P("data")), *[argument(32, 4, 8, at=P(None, "model"))] * 3, argument(4, 8, 32))
def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / 8**0.5
    masked = jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -1e9)
    return jnp.einsum("bhts,bshk,hkd->btd", jax.nn.softmax(masked), v, wo)


@program(
    argument(64, 32, at=P("data")),
    argument(32, 8),
    argument(8, 32, 64, at=P("model")),
    argument(8, 64, 32, at=P("model")),
)
def mixture_of_experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
    weight, expert = lax.top_k(jax.nn.softmax(x @ gate), 2)
    combine = jnp.einsum("tk,tke->te", weight, jax.nn.one_hot(expert, 8))
    hidden = jax.nn.silu(jnp.einsum("td,edf->etf", x, up))
    return jnp.einsum("etf,efd,te->td", hidden, down, combine)


@program(
    argument(8, 16, 16, 4, at=P("data")), argument(3, 3, 4, 8, at=P(None, None, None, "model")), argument(3, 3, 8, 8)
)
def convolutions(x: Any, first: Any, second: Any) -> Any:
    for kernel, stride in ((first, 1), (second, 2)):
        x = lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x)
    return x.mean((1, 2))


@program(X, argument(4, 32, 64, at=P(None, None, "model")), argument(4, 64, 32, at=P(None, "model")))
def scan_over_layers(x: Any, up: Any, down: Any) -> Any:
    def layer(x: Any, weights: Any) -> Any:
        hidden = jax.nn.silu(x @ weights[0])
        return x + hidden @ weights[1], hidden.mean()

    return lax.scan(layer, x, (up, down))


@program(X, argument(32, 32, at=P(None, "model")), argument(dtype=jnp.int32))
def branches(x: Any, w: Any, which: Any) -> Any:
    small = lax.cond(which > 0, lambda x: x @ w, jnp.tanh, x)
    return lax.switch(which, [lambda x: x, lambda x: x * 2, lambda x: x @ w.T], small)


@program(TOKENS, argument(64, 32, at=P("model")))
def embedding(tokens: Any, table: Any) -> Any:
    embedded = table[tokens] * 32**0.5
    return embedded @ table.T, jnp.take_along_axis(embedded, tokens[..., None] % 32, -1)


@program(argument(8, 16, 32, at=P("data", None, "model")), argument(32), argument(32))
def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return x + centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias


@program(X, *[argument(32, 64, at=P(None, "model")), argument(64, 32)] * 3)
def train_step(x: Any, w1: Any, w2: Any, m1: Any, m2: Any, v1: Any, v2: Any) -> Any:
    def loss(weights: Any) -> Any:
        return ((jax.nn.relu(x @ weights[0]) @ weights[1] - x) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)((w1, w2))
    first = [0.9 * m + 0.1 * g for m, g in zip((m1, m2), gradients, strict=True)]
    second = [0.99 * v + 0.01 * g * g for v, g in zip((v1, v2), gradients, strict=True)]
    step = [w - 1e-3 * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip((w1, w2), first, second, strict=True)]
    return value, step, first, second


@program(X, argument(32, 64, at=P(None, "model")), argument(64, 32))
def nested_jit(x: Any, w1: Any, w2: Any) -> Any:
    @jax.jit
    def block(x: Any) -> Any:
        return jax.nn.softmax(constrained(jax.nn.silu(x @ w1), "data", None) @ w2)

    return jnp.where(x > 0, block(block(x)), jax.nn.relu(x)).T


@program(X)
def nested_jit_with_shardings(x: Any) -> Any:
    column, row = sharding(None, "model"), sharding("model", None)
    inner = jax.jit(lambda x: jnp.sin(x) * 2, in_shardings=column, out_shardings=row)
    return jnp.cos(inner(jnp.tanh(x)))


@program(argument(16, 16, at=P("model", "data")), argument(16, 16, at=P("model", "data")))
def jitted_sum_with_transpose(x: Any, y: Any) -> Any:
    total = x + jnp.sum(y + x, axis=0)
    mixed = jax.jit(lambda y, total: y + total.T)(y, total)
    return total + x, total @ mixed


@program(argument(16, 16, at=P(None, "data")), argument(16, 16, at=P("data", "model")))
def jits_within_jits(x: Any, y: Any) -> Any:
    @jax.jit
    def inner(y: Any, x: Any) -> Any:
        return jnp.sin(y) + x

    @jax.jit
    def outer(x: Any, y: Any) -> Any:
        return y + jnp.sum(inner(y, x), axis=0) + x

    double = y + y
    return outer(x, double) + double, double + double


@program(argument(4, 16, 32, at=P(None, "data")), argument(32, 32, at=P(None, "model")))
def vmapped(x: Any, w: Any) -> Any:
    return jax.vmap(jax.jit(lambda x: jax.nn.log_softmax(x @ w) * jnp.var(x, axis=0)))(x)


@program(X, argument(32, 32, at=P(None, "model")))
def shard_mapped(x: Any, w: Any) -> Any:
    def body(t: Any) -> Any:
        return jax.nn.silu(t) / lax.psum(jnp.exp(t), "model")

    hidden = jax.nn.relu(x @ w)
    specs = P("data", "model")
    return jax.shard_map(body, mesh=mesh(), in_specs=specs, out_specs=specs)(hidden) @ w.T


@program(X, argument(4, 32, 32, at=P(None, None, "model")))
def rematerialized(x: Any, weights: Any) -> Any:
    @jax.checkpoint
    def layer(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w) @ w.T, None

    return jax.grad(lambda w: (lax.scan(layer, x, w)[0] ** 2).sum())(weights)


@program(X, argument(32, 64, at=P(None, "model")))
def custom_derivative(x: Any, w: Any) -> Any:
    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
    return jax.grad(lambda x, w: jax.nn.sigmoid(clipped(x @ w)).sum(), argnums=(0, 1))(x, w)


@program(X, argument(32, 32, at=P(None, "model")))
def while_loop(x: Any, w: Any) -> Any:
    def more(state: Any) -> Any:
        return (state[0] < 8) & (jnp.abs(state[1]).max() < 1e3)

    return lax.while_loop(more, lambda state: (state[0] + 1, jnp.tanh(state[1] @ w)), (0, x))


@program(
    argument(8, 32, at=P("data")),
    *[argument(8, 64, 4, 8, at=P("data", None, "model"))] * 2,
    argument(32, 4, 8, at=P(None, "model")),
    argument(dtype=jnp.int32),
)
def decoding(x: Any, keys: Any, values: Any, w: Any, at: Any) -> Any:
    q = jnp.einsum("bd,dhk->bhk", x, w)
    keys = lax.dynamic_update_slice(keys, q[:, None], (0, at, 0, 0))
    values = lax.dynamic_update_slice(values, q[:, None] * 2, (0, at, 0, 0))
    weights = jax.nn.softmax(jnp.einsum("bhk,bthk->bht", q, keys), where=jnp.arange(64) <= at)
    return jnp.einsum("bht,bthk->bhk", weights, values).reshape(8, 32), keys, values


@program(X, argument(32, 64, at=P(None, "model")), out=P("model", "data"))
def dropout_with_given_result(x: Any, w: Any) -> Any:
    kept = jax.random.bernoulli(jax.random.key(0), 0.9, x.shape)
    return jnp.where(kept, x / 0.9, 0) @ w


@program(X, argument(16, at=P("data"), dtype=jnp.int32))
def sorting_and_scattering(x: Any, index: Any) -> Any:
    return jnp.sort(x, axis=1), jnp.cumsum(x, axis=0), x.at[index].add(1.0), jax.ops.segment_sum(x, index, 8)


@program(argument(16, 16), argument(16, 16, at=P("model")), argument(16, 16, at=P("data")))
def sums_returned_in_another_order(shared: Any, x: Any, y: Any) -> Any:
    first = shared + x
    return y + shared, first


@program(
    TOKENS,
    argument(64, 32, at=P("data")),
    argument(32, at=P("data")),
    argument(32, 32, at=P("data")),
)
def tokens_beside_weights_in_parts(tokens: Any, table: Any, scale: Any, weight: Any) -> Any:
    """Tokens suggest to split the batch, the scale to split features: `tokens[..., None]` decides."""
    x = table[tokens]
    return x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale @ weight
