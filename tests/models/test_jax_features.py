"""What JAX programs are made of, each sharded, partitioned and run against the program for one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import from_jax

Zoo = dict[str, tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...], dict[str | int, Any]]]
ZOO: Zoo = {}


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def animal(
    *arguments: jax.ShapeDtypeStruct, args: dict[str | int, Any] | None = None
) -> Callable[[Callable[..., Any]], None]:
    """Put a function into the zoo; its first argument is split both ways unless said otherwise."""

    def keep(function: Callable[..., Any]) -> None:
        ZOO[function.__name__] = (function, arguments, args or {0: "data,model"})

    return keep


X = array(16, 32)


@animal(X)
def dropout(x: Any) -> Any:
    k = jax.random.key(0)
    return jnp.where(jax.random.bernoulli(k, 0.5, x.shape), x, 0.0)


@animal(X, array(32, 32))
def remat(x: Any, w: Any) -> Any:
    f = jax.checkpoint(lambda x: jnp.sin(x @ w) @ w)
    return jax.grad(lambda x: f(x).sum())(x)


@animal(X)
def cumsum(x: Any) -> Any:
    return jnp.cumsum(x, axis=0) + jnp.cumsum(x, axis=1)


@animal(X)
def sorting(x: Any) -> Any:
    return jnp.sort(x, axis=0), jnp.argsort(x, axis=1)


@animal(X)
def topk(x: Any) -> Any:
    return lax.top_k(x, 4)


@animal(X)
def argmax(x: Any) -> Any:
    return jnp.argmax(x, axis=0), jnp.argmax(x), x.max(), x.min(axis=1)


@animal(X, array(dtype=jnp.int32))
def condd(x: Any, i: Any) -> Any:
    return lax.cond(i > 0, lambda x: x @ x.T, lambda x: jnp.ones((16, 16)), x)


@animal(X, array(dtype=jnp.int32))
def switch(x: Any, i: Any) -> Any:
    return lax.switch(i, [lambda x: x, lambda x: jnp.roll(x, 3, axis=0), lambda x: x * 2], x)


@animal(array(8, 16, 16, 4), array(3, 3, 4, 8), args={0: "data,-,-,-", 1: "-,-,-,model"})
def conv(x: Any, w: Any) -> Any:
    return jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))


@animal(array(8, 16, 16, 4), array(3, 3, 4, 8), args={0: "data,-,-,-", 1: "-,-,-,model"})
def convgrad(x: Any, w: Any) -> Any:
    return jax.grad(
        lambda w: lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).sum()
    )(w)


@animal(array(8, 16, 16, 4), args={0: "data,-,-,model"})
def pool(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@animal(X)
def fft(x: Any) -> Any:
    return jnp.abs(jnp.fft.fft(x, axis=1))


@animal(array(8, 16, 16), args={0: "data,-,-"})
def linalg(x: Any) -> Any:
    a = x @ x.transpose(0, 2, 1) + 100 * jnp.eye(16)
    return jnp.linalg.cholesky(a)


@animal(array(8, 16, 16), args={0: "data,-,-"})
def solve(x: Any) -> Any:
    a = x @ x.transpose(0, 2, 1) + 100 * jnp.eye(16)
    return jax.scipy.linalg.solve_triangular(a, x, lower=True)


@animal(X, array(5, dtype=jnp.int32))
def take(x: Any, i: Any) -> Any:
    return x[i], x[:, i], x.at[i].add(1.0), x.at[:, i].set(0.0)


@animal(X)
def reshapes(x: Any) -> Any:
    return x.reshape(8, 2, 4, 8), x.reshape(-1), x.reshape(32, 16).T, x.reshape(4, 4, 32).sum(1)


@animal(X)
def slices(x: Any) -> Any:
    return x[2:10, 5:21:2], jnp.concatenate([x, x[:4]], 0), jnp.pad(x, ((1, 2), (0, 3))), x[::-1]


@animal(X)
def scan(x: Any) -> Any:
    def f(c: Any, r: Any) -> Any:
        c = jnp.tanh(c + r)
        return c, c * 2

    return lax.scan(f, jnp.zeros(32), x)


@animal(X)
def fori(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, c: c.at[i].set(c[i + 1] * 2.0), x)


@animal(X)
def whiledyn(x: Any) -> Any:
    return lax.while_loop(lambda c: c.sum() < 1e4, lambda c: c * 1.5 + 1.0, x)


@animal(X, array(16, dtype=jnp.int32))
def onehot(x: Any, i: Any) -> Any:
    return jax.nn.one_hot(i, 32) @ x.T, jnp.einsum("bv,bv->b", jax.nn.one_hot(i, 32), x)


@animal(array(16, 32, dtype=jnp.bfloat16), array(32, 64, dtype=jnp.bfloat16), args={0: "data,model", 1: "model,-"})
def bf16(x: Any, w: Any) -> Any:
    return jax.nn.gelu(x @ w)


@animal(array(16, 32, dtype=jnp.int32))
def ints(x: Any) -> Any:
    return x.sum(0), jnp.bitwise_xor(x, 3), x // 3, (x % 5).prod(1), jnp.any(x > 3, axis=1), jnp.all(x > -1)


@animal(X, array(16, dtype=jnp.int32))
def segsum(x: Any, i: Any) -> Any:
    return jax.ops.segment_sum(x, i % 8, num_segments=8)


@animal(
    array(4, 8, 16, 8),
    array(4, 8, 16, 8),
    array(4, 8, 16, 8),
    args={0: "data,-,model,-", 1: "data,-,model,-", 2: "data,-,model,-"},
)
def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


@animal(array(13, 7), args={0: "data,model"})
def uneven(x: Any) -> Any:
    return jnp.tanh(x) @ x.T, x.sum(0)


@animal(array(12, 32, 16), array(12, 4), args={0: "model,-,-", 1: "data+model,-"})
def moe(w: Any, x: Any) -> Any:
    return jnp.einsum("eij,eb->ibj", w, x)


@animal(X)
def variance(x: Any) -> Any:
    return jnp.var(x, axis=0), jnp.std(x), jnp.linalg.norm(x), jnp.median(x, axis=1), jnp.quantile(x, 0.3)


@animal(X)
def mapping(x: Any) -> Any:
    return jax.vmap(lambda r: jnp.interp(r, jnp.arange(4.0), jnp.arange(4.0) ** 2))(x)


@animal(array(16, 32, dtype=jnp.complex64))
def cplx(x: Any) -> Any:
    return x @ x.T.conj(), x.real, jnp.exp(x * 1j)


@pytest.mark.parametrize("name", ZOO)
def test_the_sharded_program_computes_the_same(name: str) -> None:
    function, arguments, args = ZOO[name]
    program = from_jax(function, *arguments)
    program.shard(Mesh(data=2, model=4), args=args).partition().verify().require()
