"""Inference: caches, and how the next token is chosen."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.attention import rotated
from tests.models.nets.net import LINE, ODD, Split, net
from tests.models.steps.step import array, ints

Tree = Any
WEIGHTS = {"q": array(32, 32), "k": array(32, 32), "v": array(32, 32), "o": array(32, 32)}
BY_HEADS: Split = {
    "params/q": "-,model",
    "params/k": "-,model",
    "params/v": "-,model",
    "params/o": "model,-",
}
CACHE = {"k": array(4, 24, 4, 8), "v": array(4, 24, 4, 8)}


def attend_to_cache(p: Tree, cache: Tree, x: Any, place: Any) -> Any:
    """One token of each sequence: what comes out, and the cache with its keys and values."""
    q, k, v = ((x @ p[name]).reshape(4, 1, 4, 8) for name in "qkv")
    keys = lax.dynamic_update_slice(cache["k"], rotated(k, place), (0, place, 0, 0))
    values = lax.dynamic_update_slice(cache["v"], v, (0, place, 0, 0))
    scores = jnp.einsum("bthd,bshd->bhts", rotated(q, place), keys) / 8**0.5
    weights = jax.nn.softmax(jnp.where(jnp.arange(24) <= place, scores, -1e9))
    out = jnp.einsum("bhts,bshd->bthd", weights, values).reshape(4, 32)
    return out @ p["o"], {"k": keys, "v": values}


@net(WEIGHTS, CACHE, array(4, 32), ints(), args={**BY_HEADS, "cache": "data,-,model,-", "x": "data,-"})
def decoding_with_cache(params: Tree, cache: Tree, x: Any, place: Any) -> Any:
    """One step; heads of the cache are split."""
    return attend_to_cache(params, cache, x, place)


@net(WEIGHTS, CACHE, array(4, 32), ints(), args={"cache": "data,model,-,-", "x": "data,-"})
def decoding_with_split_sequence(params: Tree, cache: Tree, x: Any, place: Any) -> Any:
    """One step; the cache is split along the sequence, so softmax and sums are over devices."""
    return attend_to_cache(params, cache, x, place)


@net(
    {**WEIGHTS, "embed": array(40, 32)},
    ints(4),
    args={**BY_HEADS, "params/embed": "model,-", "first": "data"},
)
def greedy_generation(params: Tree, first: Any) -> Any:
    """Eight tokens in a loop, the cache carried."""

    def step(carry: Any, place: Any) -> Any:
        token, cache = carry
        h, cache = attend_to_cache(params, cache, params["embed"][token], place)
        token = jnp.argmax(h @ params["embed"].T, -1)
        return (token, cache), token

    empty = jax.tree.map(lambda a: jnp.zeros(a.shape), CACHE)
    return lax.scan(step, (first, empty), jnp.arange(8))[1].T


@net(
    array(4, 4, 8), array(16, 8, 4, 8), array(16, 8, 4, 8), ints(4, 3), ints(4),
    args={"q": "data,model,-", "keys": "-,-,model,-", "values": "-,-,model,-", "pages": "data,-", "lengths": "data"},
)  # fmt: skip
def paged_attention(q: Any, keys: Any, values: Any, pages: Any, lengths: Any) -> Any:
    """Keys and values lie in pages of eight, which a table lists for each sequence. q: [sequence, head, size]."""
    k, v = (a[pages].reshape(4, 24, 4, 8) for a in (keys, values))
    scores = jnp.einsum("bhd,bshd->bhs", q, k) / 8**0.5
    weights = jax.nn.softmax(jnp.where(jnp.arange(24) <= lengths[:, None, None] % 24, scores, -1e9))
    return jnp.einsum("bhs,bshd->bhd", weights, v)


@net(array(8, 64), array(8, 64, dtype=jnp.int8), array(64), ints(), args={"x": "data,-", "cache": "data,-"}, mesh=LINE)
def quantized_cache(x: Any, cache: Any, scale: Any, place: Any) -> Any:
    """A row is quantized and put into a cache of eight bits, the rest is read back."""
    row = jnp.clip(jnp.round(x[:1] / jnp.abs(scale).max() * 127), -127, 127).astype(jnp.int8)
    cache = lax.dynamic_update_slice(cache, row, (place, 0))
    return cache, (cache.astype(jnp.float32) * scale) @ x.T


@net(
    array(4, 3, 60),
    array(4, 3),
    ints(4, 3, 10),
    args={"logits": "data,-,model", "scores": "data,-", "tokens": "data,-,-"},
)
def beam_search(logits: Any, scores: Any, tokens: Any) -> Any:
    """One step: the best of all continuations of three beams, and their histories. [sentence, beam, word]."""
    total = scores[..., None] + jax.nn.log_softmax(logits)
    best, which = lax.top_k(total.reshape(4, 180), 3)
    beam, word = which // 60, which % 60
    kept = jnp.take_along_axis(tokens, beam[..., None], 1)
    return best, jnp.concatenate([kept[..., 1:], word[..., None]], -1)


@net(array(8, 96), ints(), args={"logits": "data,model"})
def nucleus_sampling(logits: Any, seed: Any) -> Any:
    """The forty likeliest words, of these the ones that make up nine tenths, and a draw from those; words split."""
    top, words = lax.top_k(logits / 0.8, 40)
    chances = jax.nn.softmax(top)
    inside = jnp.cumsum(chances, -1) - chances < 0.9
    draws = jax.random.categorical(jax.random.key(seed), jnp.where(inside, top, -jnp.inf))
    return jnp.take_along_axis(words, draws[:, None], 1)[:, 0], inside.sum(-1)


@net(
    array(8, 4, 48),
    array(8, 4, 48),
    ints(8, 4),
    ints(),
    args={"target": "data,-,-", "draft": "data,-,-", "tokens": "data,-"},
    mesh=LINE,
)
def speculative_acceptance(target: Any, draft: Any, tokens: Any, seed: Any) -> Any:
    """How many drafted tokens are kept, and a draw from what the draft has missed."""
    p, q = jax.nn.softmax(target), jax.nn.softmax(draft)
    chosen = [jnp.take_along_axis(a, tokens[..., None], -1)[..., 0] for a in (p, q)]
    keys = jax.random.split(jax.random.key(seed))
    accepted = jax.random.uniform(keys[0], (8, 4)) < chosen[0] / chosen[1]
    count = jnp.cumprod(accepted, -1).sum(-1)
    left = jnp.take_along_axis(jnp.maximum(p - q, 0), jnp.minimum(count, 3)[:, None, None], 1)[:, 0]
    return count, jax.random.categorical(keys[1], jnp.log(left + 1e-9))


@net(array(6, 50), ints(6, 12), args={"logits": "data,model", "history": "data,-"}, mesh=ODD)
def repetition_penalty(logits: Any, history: Any) -> Any:
    """Words that were there are made less likely, those that were there thrice impossible; six devices."""
    counts = jnp.zeros((6, 50)).at[jnp.arange(6)[:, None], history].add(1)
    scaled = jnp.where(logits > 0, logits / 1.3, logits * 1.3)
    logits = jnp.where(counts > 0, scaled, logits)
    return jax.nn.softmax(jnp.where(counts > 2, -jnp.inf, logits))


@net(WEIGHTS, CACHE, array(4, 6, 32), ints(), args={**BY_HEADS, "cache": "data,-,model,-", "x": "data,-,-"})
def prefill_of_a_chunk(params: Tree, cache: Tree, x: Any, start: Any) -> Any:
    """Six tokens at once go into the cache and attend to all before them."""
    q, k, v = ((x @ params[name]).reshape(4, 6, 4, 8) for name in "qkv")
    keys, values = (lax.dynamic_update_slice(cache[n], a, (0, start, 0, 0)) for n, a in (("k", k), ("v", v)))
    seen = jnp.arange(24) <= (start + jnp.arange(6))[:, None]
    scores = jnp.where(seen, jnp.einsum("bthd,bshd->bhts", q, keys) / 8**0.5, -1e9)
    out = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), values).reshape(4, 6, 32)
    return out @ params["o"], keys, values
