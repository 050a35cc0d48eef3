"""One inference step of a small GPT with a key-value cache, on a mesh data=2, model=4.

Each sequence of the batch brings one token, which stands at position `position`. The step looks the token
up, writes its keys and values into the caches at that position, attends to everything up to it, and
returns the logits of the next token. Caches are split over `data` by sequence and over `model` by head,
and donated; weights lie as in `gpt.py`.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from example import Example, Input, argument_parser, constrain, lower, write_text
from gpt import Tree, block_inputs, feed_forward, layer_norm, norm_inputs, split_heads
from jax.sharding import PartitionSpec


def cached_attention(x: jax.Array, block: Tree, cache: Tree, position: jax.Array, heads: int) -> tuple[jax.Array, Tree]:
    """Attention of one token (batch, 1, model) to the cache, and the cache with that token in it."""
    query = split_heads(x @ block["wq"], heads)
    key, value = (
        jax.lax.dynamic_update_slice_in_dim(cache[name], split_heads(x @ block[weight], heads), position, 2)
        for name, weight in (("key", "wk"), ("value", "wv"))
    )
    scores = jnp.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.shape[-1])
    column = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 3)
    weights = jax.nn.softmax(jnp.where(column <= position, scores, -1e9), axis=-1)
    context = jnp.einsum("bhqk,bhkd->bhqd", weights, value)
    return context.transpose(0, 2, 1, 3).reshape(x.shape) @ block["wo"], {"key": key, "value": value}


def decode_step(
    params: Tree, caches: list[Tree], tokens: jax.Array, position: jax.Array, *, heads: int
) -> dict[str, Any]:
    """Token ids (batch,) -> logits (batch, vocabulary), and the caches with these tokens in them."""
    x = jnp.take(params["embedding"], tokens, axis=0)[:, None, :]
    x = x + jax.lax.dynamic_slice_in_dim(params["positions"], position, 1, axis=0)
    x = constrain(x, "data", None, None)
    updated = []
    for block, cache in zip(params["blocks"], caches, strict=True):
        context, cache = cached_attention(layer_norm(x, block["norm_1"]), block, cache, position, heads)
        x = x + context
        x = x + feed_forward(layer_norm(x, block["norm_2"]), block)
        updated.append(cache)
    x = layer_norm(x[:, 0, :], params["norm"])
    logits = jnp.einsum("bd,vd->bv", x, params["embedding"])
    return {"logits": constrain(logits, "data", "model"), "caches": updated}


def build(
    layers: int = 2,
    *,
    batch: int = 8,
    length: int = 32,
    d_model: int = 64,
    heads: int = 8,
    d_ff: int = 256,
    vocabulary: int = 512,
) -> Example:
    """The inference step; `batch` must be even, `heads`, `d_ff` and `vocabulary` multiples of 4."""
    params = {
        "embedding": Input((vocabulary, d_model), PartitionSpec("model", None), "normal 0.1"),
        "positions": Input((length, d_model), PartitionSpec(None, None), "normal 0.02"),
        "blocks": [block_inputs(d_model, d_ff) for _ in range(layers)],
        "norm": norm_inputs(d_model),
    }
    cache = Input((batch, heads, length, d_model // heads), PartitionSpec("data", "model", None, None), "normal 0.5")
    caches: list[Any] = [{"key": cache, "value": cache} for _ in range(layers)]
    tokens = Input((batch,), PartitionSpec("data"), f"integers 0 {vocabulary}", jnp.int32)
    position = Input((), PartitionSpec(), "constant 5", jnp.int32)
    step = partial(decode_step, heads=heads)
    return Example(step, (params, caches, tokens, position), {"data": 2, "model": 4}, donate_argnums=(1,))


def main() -> None:
    """Lowers the inference step from the command line."""
    parser = argument_parser(__doc__)
    parser.add_argument("--layers", type=int, default=2, help="transformer layers (default: 2)")
    arguments = parser.parse_args()
    write_text(lower(build(arguments.layers)), arguments.output)


if __name__ == "__main__":
    main()
