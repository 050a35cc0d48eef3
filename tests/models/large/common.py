"""What several of the programs have in common: how they are sharded, their steps, and transformers with biases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.program import Plan, from_jax

__all__ = [
    "BIASED_MEGATRON",
    "WHOLE",
    "Axes",
    "Rule",
    "Table",
    "Tree",
    "adam",
    "alike",
    "array",
    "attention",
    "attention_parameters",
    "block",
    "block_parameters",
    "layer_norm",
    "next_token_loss",
    "rms_norm",
    "sgd",
    "sharded",
    "split_largest",
]

Tree = Any
Axes = tuple[str | None, ...]
"""The axis of each dimension, those of stacks of layers left out."""
Table = Mapping[str, Axes]
"""Parameter → its axes."""
Rule = Callable[[TensorType, Mesh], Axes | None]
"""How a parameter lies, by its type."""

WHOLE: Table = {}
BIASED_MEGATRON: Table = {
    **dict.fromkeys(("wq", "wk", "wv", "up"), (None, "model")),
    **dict.fromkeys(("bq", "bk", "bv", "up_bias"), ("model",)),
    **dict.fromkeys(("wo", "down"), ("model", None)),
}
"""Of `block_parameters`."""


def array(*shape: int, dtype: Any = jnp.bfloat16) -> Any:
    """An argument, of which there is no more than its type."""
    return jax.ShapeDtypeStruct(shape, dtype)


def alike(tree: Tree, dtype: Any = jnp.float32) -> Tree:
    """The same shapes of another type."""
    return jax.tree.map(lambda one: array(*one.shape, dtype=dtype), tree)


def sharded(function: Any, arguments: tuple[Tree, ...], mesh: Mesh, table: Table | Rule, others: Table) -> Plan:
    """Sharded by how names begin as `others` has it, and else by their last part, or by a rule."""
    program = from_jax(function, *arguments)
    given = {}
    for name, type in program.arguments.items():
        axes = _axes(name, type, mesh, table, others)
        if axes is not None:
            every = (None,) * (type.rank - len(axes)) + tuple(axes)
            given[name] = ",".join(axis or "-" for axis in every)
    return program.shard(mesh, given)


def _axes(name: str, type: TensorType, mesh: Mesh, table: Table | Rule, others: Table) -> Axes | None:
    for start, axes in others.items():
        if f"{name}/".startswith(f"{start}/"):
            return axes
    return table(type, mesh) if callable(table) else table.get(name.split("/")[-1])


def split_largest(type: TensorType, mesh: Mesh, least: int = 1024) -> Axes | None:
    """The largest dimension that `data` divides lies over it, but of tensors of fewer than `least` elements."""
    dims = [size if size % mesh.sizes["data"] == 0 else 0 for size in type.dims]
    if type.elements < least or not any(dims):
        return None
    largest = dims.index(max(dims))
    return tuple("data" if dim == largest else None for dim in range(type.rank))


def adam(loss: Any) -> Any:
    """A step of Adam in float32, of parameters, both moments and a batch."""

    def step(params: Tree, first: Tree, second: Tree, batch: Tree) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        grads = jax.tree.map(lambda g: g.astype(jnp.float32), grads)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return (p.astype(jnp.float32) - 1e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype)

        return jax.tree.map(moved, params, first, second), first, second, value

    return step


def sgd(loss: Any) -> Any:
    """A step of plain descent, of parameters and a batch."""

    def step(params: Tree, batch: Tree) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(lambda p, g: (p - 1e-3 * g.astype(p.dtype)).astype(p.dtype), params, grads), value

    return step


def next_token_loss(logits: Any, tokens: Any) -> Any:
    """How unlikely each token is by the logits at the one before: batch, length, vocabulary."""
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1))


def rms_norm(x: Any, scale: Any) -> Any:
    """Over the last dimension, in float32."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Over the last dimension, in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return (centred * lax.rsqrt(variance + 1e-6)).astype(x.dtype) * scale + shift


def attention_parameters(width: int, stack: tuple[int, ...] = (), biases: bool = True) -> Tree:
    """Of queries, keys, values and what comes out."""
    made = {f"w{name}": array(*stack, width, width) for name in "qkvo"}
    return made | ({f"b{name}": array(*stack, width) for name in "qkvo"} if biases else {})


def _projected(x: Any, layer: Tree, name: str) -> Any:
    y = x @ layer[f"w{name}"]
    return y + layer[f"b{name}"] if f"b{name}" in layer else y


def attention(x: Any, layer: Tree, heads: int, *, memory: Any = None, mask: Any = None, bias: Any = None) -> Any:
    """Of `x` to itself or to a memory; `bias` is added to scores of batch, heads, queries, keys."""
    size, seen = x.shape[-1] // heads, x if memory is None else memory
    query = _projected(x, layer, "q").reshape(*x.shape[:-1], heads, size)
    keys, values = (_projected(seen, layer, name).reshape(*seen.shape[:-1], heads, size) for name in "kv")
    scores = jnp.einsum("bthd,bshd->bhts", query, keys).astype(jnp.float32) / math.sqrt(size)
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else jnp.where(mask, scores, -1e9)
    shares = jax.nn.softmax(scores, -1).astype(x.dtype)
    return _projected(jnp.einsum("bhts,bshd->bthd", shares, values).reshape(x.shape), layer, "o")


def block_parameters(width: int, hidden: int, stack: tuple[int, ...] = ()) -> Tree:
    """Of an attention and an MLP, each after a norm."""
    return {
        **attention_parameters(width, stack),
        "up": array(*stack, width, hidden),
        "up_bias": array(*stack, hidden),
        "down": array(*stack, hidden, width),
        "down_bias": array(*stack, width),
        **{name: array(*stack, width) for name in ("scale", "shift", "mlp_scale", "mlp_shift")},
    }


def block(
    x: Any, layer: Tree, heads: int, *, mask: Any = None, bias: Any = None, between: Callable[[Any], Any] | None = None
) -> Any:
    """An attention and an MLP, each added to what it is given; `between` is what is done between both."""
    normed = layer_norm(x, layer["scale"], layer["shift"])
    x = x + attention(normed, layer, heads, mask=mask, bias=bias)
    x = x if between is None else between(x)
    hidden = jax.nn.gelu(layer_norm(x, layer["mlp_scale"], layer["mlp_shift"]) @ layer["up"] + layer["up_bias"])
    return x + hidden @ layer["down"] + layer["down_bias"]
