"""Ops of every family: a JAX function each, of a size at which bytes weigh more than the start of a collective.

Sizes divide by 8, 6, 4, 3 and 2, and none by 7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["CASES", "OpCase"]

ROWS = (960, 960)
STACK = (48, 96, 96)
IMAGE = (24, 48, 48, 48)  # batch, height, width, features
LETTERS = "NHWC", "HWIO", "NHWC"


@dataclass(frozen=True, slots=True)
class OpCase:
    """An op of a family, as the function that makes it of arguments of these types."""

    family: str
    name: str
    function: Callable[..., Any]
    arguments: tuple[jax.ShapeDtypeStruct, ...]

    def text(self) -> str:
        """Its StableHLO, for one device."""
        return jax.jit(self.function, keep_unused=True).lower(*self.arguments).as_text()


CASES: list[OpCase] = []


def of(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def op(family: str, name: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Add a case; an argument that is a shape is one of f32."""
    typed = tuple(one if isinstance(one, jax.ShapeDtypeStruct) else of(one) for one in arguments)
    CASES.append(OpCase(family, name, function, typed))


def conv(**options: Any) -> Callable[[Any, Any], Any]:
    """A convolution of images in NHWC with filters in HWIO."""
    options = {"window_strides": (1, 1), "padding": "SAME", **options}
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=LETTERS, **options)


def window(computation: Any, start: float, size: int, stride: int, padding: str) -> Callable[[Any], Any]:
    """A pooling of images in NHWC over squares."""
    return lambda x: lax.reduce_window(x, start, computation, (1, size, size, 1), (1, stride, stride, 1), padding)


def gradient(function: Callable[..., Any], of_argument: int) -> Callable[..., Any]:
    """The gradient with respect to an argument, given arguments and a cotangent."""

    def transpose(*arguments: Any) -> Any:
        *primals, cotangent = arguments
        return jax.vjp(function, *primals)[1](cotangent)[of_argument]

    return transpose


def transpose(function: Callable[..., Any], of_argument: int, shape: tuple[int, ...]) -> Callable[..., Any]:
    """The transpose of what is linear in an argument of this shape, given the others and a cotangent."""

    def transposed(*arguments: Any) -> Any:
        *others, cotangent = arguments

        def linear(argument: Any) -> Any:
            return function(*others[:of_argument], argument, *others[of_argument:])

        return jax.linear_transpose(linear, of(shape))(cotangent)[0]

    return transposed


op("pointwise", "add", jnp.add, ROWS, ROWS)
op("pointwise", "select", lambda p, x, y: jnp.where(p, x, y), of(ROWS, jnp.bool_), ROWS, ROWS)
op("pointwise", "convert", lambda x: x.astype(jnp.bfloat16), ROWS)
op("pointwise", "clamp", lambda x: lax.clamp(-1.0, x, 1.0), ROWS)
op("pointwise", "complex", lax.complex, ROWS, ROWS)

op("move", "transpose", lambda x: x.transpose(2, 0, 1), STACK)
op("move", "broadcast", lambda x: jnp.broadcast_to(x[:, None], (960, 48, 960)), ROWS)
op("move", "reshape merge", lambda x: x.reshape(48 * 96, 96), STACK)
op("move", "reshape split", lambda x: x.reshape(48, 20, 960), ROWS)
op("move", "reverse", lambda x: x[::-1], ROWS)
op("move", "bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), ROWS)

op("slice", "slice half", lambda x: x[:480], ROWS)
op("slice", "slice inner", lambda x: x[240:720], ROWS)
op("slice", "slice off one", lambda x: x[1:], ROWS)
op("slice", "slice strided", lambda x: x[::2], ROWS)
op("slice", "slice strided from 1", lambda x: x[1::2], ROWS)
op("slice", "dynamic_slice row", lambda x, i: lax.dynamic_slice_in_dim(x, i, 1, 0), ROWS, of((), jnp.int32))
op("slice", "dynamic_slice half", lambda x, i: lax.dynamic_slice_in_dim(x, i, 480, 0), ROWS, of((), jnp.int32))
op(
    "slice",
    "dynamic_update_slice",
    lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0),
    ROWS,
    (1, 960),
    of((), jnp.int32),
)

op("pad", "pad low", lambda x: jnp.pad(x, ((960, 0), (0, 0))), ROWS)
op("pad", "pad shift", lambda x: lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 0))), ROWS)
op("pad", "pad around", lambda x: jnp.pad(x, ((4, 4), (0, 0))), ROWS)
op("pad", "pad interior", lambda x: lax.pad(x, 0.0, ((0, 1, 1), (0, 0, 0))), ROWS)
op("concatenate", "concatenate", lambda x, y: jnp.concatenate([x, y]), ROWS, ROWS)
op("concatenate", "stack", lambda x, y: jnp.stack([x, y]), ROWS, ROWS)
op("concatenate", "roll", lambda x: jnp.roll(x, 1, 0), ROWS)

op("dot", "matmul", jnp.matmul, ROWS, ROWS)
op("dot", "matmul batched", jnp.matmul, STACK, STACK)
op("dot", "matmul transposed", lambda x, y: (x @ y).T, ROWS, ROWS)
op("dot", "matvec", jnp.matmul, ROWS, (960,))

op("reduce", "sum", lambda x: x.sum(0), ROWS)
op("reduce", "max", lambda x: x.max(0), ROWS)
op("reduce", "argmax", lambda x: jnp.argmax(x, 0), ROWS)
op("reduce", "variance", lambda x: jnp.var(x, 0), ROWS)
op("reduce", "softmax", lambda x: jax.nn.softmax(x, 0), ROWS)
op("scan", "cumsum", lambda x: jnp.cumsum(x, 0), ROWS)
op("scan", "cummax", lambda x: lax.cummax(x, 0), ROWS)
op("scan", "associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), ROWS)

op("sort", "sort", lambda x: jnp.sort(x, 0), ROWS)
op("sort", "argsort", lambda x: jnp.argsort(x, 0), ROWS)
op("sort", "sort vector", jnp.sort, (960 * 1024,))
op("sort", "top_k", lambda x: lax.top_k(x, 8), ROWS)

op("window", "max_pool 2/2", window(lax.max, -jnp.inf, 2, 2, "VALID"), IMAGE)
op("window", "avg_pool 3/1", window(lax.add, 0.0, 3, 1, "SAME"), IMAGE)
op("window", "max_pool 3/2", window(lax.max, -jnp.inf, 3, 2, "SAME"), IMAGE)
op(
    "window",
    "max_pool 2/2 gradient",
    gradient(window(lax.max, -jnp.inf, 2, 2, "VALID"), 0),
    IMAGE,
    (24, 24, 24, 48),
)

op("convolution", "conv 1x1", conv(), IMAGE, (1, 1, 48, 48))
op("convolution", "conv 3x3", conv(), IMAGE, (3, 3, 48, 48))
op("convolution", "conv 3x3 strided", conv(window_strides=(2, 2)), IMAGE, (3, 3, 48, 48))
op("convolution", "conv 3x3 dilated", conv(rhs_dilation=(2, 2)), IMAGE, (3, 3, 48, 48))
op("convolution", "conv depthwise", conv(feature_group_count=48), IMAGE, (3, 3, 1, 48))
op("convolution", "conv grouped", conv(feature_group_count=8), IMAGE, (3, 3, 6, 48))
op("convolution", "conv 3x3 by input", transpose(conv(), 0, IMAGE), (3, 3, 48, 48), IMAGE)
op("convolution", "conv 3x3 by filter", transpose(conv(), 1, (3, 3, 48, 48)), IMAGE, IMAGE)

op("gather", "take rows", lambda x, i: x[i], ROWS, of((3840,), jnp.int32))
op("gather", "take along", lambda x, i: jnp.take_along_axis(x, i, 0), ROWS, of((96, 960), jnp.int32))
op("gather", "take elements", lambda x, i, j: x[i, j], ROWS, of((3840,), jnp.int32), of((3840,), jnp.int32))
op("scatter", "add rows", lambda x, i, u: x.at[i].add(u), ROWS, of((3840,), jnp.int32), (3840, 960))
op("scatter", "set rows", lambda x, i, u: x.at[i].set(u), ROWS, of((96,), jnp.int32), (96, 960))
op("scatter", "one row of each", lambda x, i: x.at[jnp.arange(960), i].set(0.0), ROWS, of((960,), jnp.int32))
op("scatter", "embedding gradient", transpose(lambda x, i: x[i], 0, ROWS), of((3840,), jnp.int32), (3840, 960))

op("fft", "fft", jnp.fft.fft, of(ROWS, jnp.complex64))
op("fft", "rfft", jnp.fft.rfft, ROWS)
op("fft", "fft2", jnp.fft.fft2, of(STACK, jnp.complex64))
op("linalg", "cholesky", lambda x: jnp.linalg.cholesky(x, symmetrize_input=False), STACK)
op(
    "linalg",
    "triangular_solve",
    lambda x, y: lax.linalg.triangular_solve(x, y, left_side=True, lower=True),
    STACK,
    STACK,
)
op("random", "uniform", lambda k: jax.random.uniform(jax.random.wrap_key_data(k), ROWS), of((2,), jnp.uint32))
op("control", "scan of rows", lambda x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(960), x), ROWS)
op("control", "cond", lambda p, x, y: lax.cond(p, lambda: x @ y, lambda: x + y), of((), jnp.bool_), ROWS, ROWS)
op("control", "map", lambda x: lax.map(lambda m: m @ m.T, x), STACK)
