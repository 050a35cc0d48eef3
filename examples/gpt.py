"""One training step of a small GPT: forward, backward and Adam, on a mesh data=2, model=4.

The batch is split over `data`. Weights are split over `model` as in Megatron-LM (Shoeybi et al., 2019):
wq, wk, wv and w_up by columns, wo and w_down by rows, the token embedding (also the unembedding) by
vocabulary. Positions and layer norms are replicated; Adam's moments lie as their parameters. Only the
residual stream and the logits carry constraints inside: the rest is for propagation to find.

Parameters and optimizer state are donated. `--scan` runs the layers as a `jax.lax.scan` over stacked
parameters, which lowers to `stablehlo.while`.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from example import Example, Input, argument_parser, constrain, lower, write_text
from jax.sharding import PartitionSpec

Tree = dict[str, Any]

LEARNING_RATE = 1e-3
BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


def layer_norm(x: jax.Array, norm: Tree) -> jax.Array:
    """Normalizes the last dimension."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * norm["scale"] + norm["bias"]


def split_heads(x: jax.Array, heads: int) -> jax.Array:
    """Batch, length, model -> batch, head, length, head size."""
    batch, length, d_model = x.shape
    return x.reshape(batch, length, heads, d_model // heads).transpose(0, 2, 1, 3)


def attention(x: jax.Array, block: Tree, heads: int) -> jax.Array:
    """Causal multi-head self-attention."""
    batch, length, d_model = x.shape
    query = split_heads(x @ block["wq"], heads)
    key = split_heads(x @ block["wk"], heads)
    value = split_heads(x @ block["wv"], heads)
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(d_model // heads)
    row = jax.lax.broadcasted_iota(jnp.int32, (length, length), 0)
    column = jax.lax.broadcasted_iota(jnp.int32, (length, length), 1)
    scores = jnp.where(column <= row, scores, -1e9)
    context = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), value)
    return context.transpose(0, 2, 1, 3).reshape(batch, length, d_model) @ block["wo"]


def feed_forward(x: jax.Array, block: Tree) -> jax.Array:
    """The two-layer perceptron with GELU."""
    hidden = jax.nn.gelu(x @ block["w_up"] + block["b_up"])
    return hidden @ block["w_down"] + block["b_down"]


def apply_block(x: jax.Array, block: Tree, heads: int) -> jax.Array:
    """One transformer layer with pre-normalization."""
    x = x + attention(layer_norm(x, block["norm_1"]), block, heads)
    x = x + feed_forward(layer_norm(x, block["norm_2"]), block)
    return constrain(x, "data", None, None)


def forward(params: Tree, tokens: jax.Array, heads: int) -> jax.Array:
    """Token ids (batch, length) -> logits (batch, length, vocabulary)."""
    x = jnp.take(params["embedding"], tokens, axis=0) + params["positions"]
    x = constrain(x, "data", None, None)
    blocks = params["blocks"]
    if isinstance(blocks, list):
        for block in blocks:
            x = apply_block(x, block, heads)
    else:
        x, _ = jax.lax.scan(lambda h, block: (apply_block(h, block, heads), None), x, blocks)
    x = layer_norm(x, params["norm"])
    logits = jnp.einsum("bld,vd->blv", x, params["embedding"])
    return constrain(logits, "data", None, "model")


def cross_entropy(params: Tree, tokens: jax.Array, targets: jax.Array, heads: int) -> jax.Array:
    """Mean negative log-likelihood of the targets."""
    log_probabilities = jax.nn.log_softmax(forward(params, tokens, heads), axis=-1)
    chosen = jnp.take_along_axis(log_probabilities, targets[..., None], axis=-1)
    return -jnp.mean(chosen)


def adam(params: Tree, optimizer: Tree, gradients: Tree) -> tuple[Tree, Tree]:
    """One step of Adam with bias correction."""
    step = optimizer["step"] + 1
    time = step.astype(jnp.float32)
    rate = LEARNING_RATE / (1.0 - BETA_1**time)
    correction = 1.0 - BETA_2**time

    def moved(param: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        return param - rate * first / (jnp.sqrt(second / correction) + EPSILON)

    first = jax.tree.map(lambda m, g: BETA_1 * m + (1.0 - BETA_1) * g, optimizer["first"], gradients)
    second = jax.tree.map(lambda v, g: BETA_2 * v + (1.0 - BETA_2) * jnp.square(g), optimizer["second"], gradients)
    params = jax.tree.map(moved, params, first, second)
    return params, {"first": first, "second": second, "step": step}


def train_step(params: Tree, optimizer: Tree, tokens: jax.Array, targets: jax.Array, *, heads: int) -> dict[str, Any]:
    """New parameters, new optimizer state and loss, by name."""
    loss, gradients = jax.value_and_grad(cross_entropy)(params, tokens, targets, heads)
    params, optimizer = adam(params, optimizer, gradients)
    return {"params": params, "optimizer": optimizer, "loss": loss}


def norm_inputs(d_model: int, stack: tuple[int, ...] = ()) -> Tree:
    """A layer norm's parameters, replicated; `stack` is a leading dimension to scan over."""
    spec = PartitionSpec(*(None for _ in stack), None)
    return {
        "scale": Input((*stack, d_model), spec, "uniform 0.9 1.1"),
        "bias": Input((*stack, d_model), spec, "normal 0.02"),
    }


def block_inputs(d_model: int, d_ff: int, stack: tuple[int, ...] = ()) -> Tree:
    """A layer's parameters, Megatron style; `stack` is a leading dimension to scan over."""

    def stacked(shape: tuple[int, ...], axes: tuple[str | None, ...], draw: str) -> Input:
        return Input((*stack, *shape), PartitionSpec(*(None for _ in stack), *axes), draw)

    column, row, split, whole = (None, "model"), ("model", None), ("model",), (None,)
    return {
        "norm_1": norm_inputs(d_model, stack),
        "wq": stacked((d_model, d_model), column, "normal 0.1"),
        "wk": stacked((d_model, d_model), column, "normal 0.1"),
        "wv": stacked((d_model, d_model), column, "normal 0.1"),
        "wo": stacked((d_model, d_model), row, "normal 0.1"),
        "norm_2": norm_inputs(d_model, stack),
        "w_up": stacked((d_model, d_ff), column, "normal 0.1"),
        "b_up": stacked((d_ff,), split, "normal 0.02"),
        "w_down": stacked((d_ff, d_model), row, "normal 0.05"),
        "b_down": stacked((d_model,), whole, "normal 0.02"),
    }


def build(
    layers: int = 2,
    scan: bool = False,
    *,
    batch: int = 8,
    length: int = 32,
    d_model: int = 64,
    heads: int = 8,
    d_ff: int = 256,
    vocabulary: int = 512,
) -> Example:
    """The training step; `batch` must be even, `heads`, `d_ff` and `vocabulary` multiples of 4."""
    blocks: Any = [block_inputs(d_model, d_ff) for _ in range(layers)]
    if scan:
        blocks = block_inputs(d_model, d_ff, (layers,))
    params = {
        "embedding": Input((vocabulary, d_model), PartitionSpec("model", None), "normal 0.1"),
        "positions": Input((length, d_model), PartitionSpec(None, None), "normal 0.02"),
        "blocks": blocks,
        "norm": norm_inputs(d_model),
    }
    optimizer = {
        "first": redrawn(params, "normal 0.001"),
        "second": redrawn(params, "uniform 0.0 0.01"),
        "step": Input((), PartitionSpec(), "constant 3", jnp.int32),
    }
    token_ids = Input((batch, length), PartitionSpec("data", None), f"integers 0 {vocabulary}", jnp.int32)
    inputs = (params, optimizer, token_ids, token_ids)
    step = partial(train_step, heads=heads)
    return Example(step, inputs, {"data": 2, "model": 4}, donate_argnums=(0, 1))


def redrawn(params: Tree, draw: str) -> Tree:
    """Inputs of the same shapes and shardings, drawn another way."""
    return jax.tree.map(lambda leaf: Input(leaf.shape, leaf.spec, draw, leaf.dtype), params)


def main() -> None:
    """Lowers the training step from the command line."""
    parser = argument_parser(__doc__)
    parser.add_argument("--layers", type=int, default=2, help="transformer layers (default: 2)")
    parser.add_argument("--scan", action="store_true", help="scan over the layers")
    arguments = parser.parse_args()
    write_text(lower(build(arguments.layers, arguments.scan)), arguments.output)


if __name__ == "__main__":
    main()
