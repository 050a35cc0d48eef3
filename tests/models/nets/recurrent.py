"""Recurrent nets, state spaces and dynamic programs: what goes along a sequence step by step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import LINE, ODD, net
from tests.models.steps.layers import adam_from_zero, descend
from tests.models.steps.step import array, ints

Tree = Any


def lstm_cell(p: Tree, carry: Any, x: Any) -> Any:
    """One step: the new carry, and what goes out."""
    h, c = carry
    i, f, g, o = jnp.split(x @ p["w"] + h @ p["u"], 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h


@net(
    {"w": array(16, 48), "u": array(16, 48)},
    {"x": array(12, 8, 16), "y": array(8, 16)},
    args={"params": "-,model", "batch/x": "-,data,-", "batch/y": "data,-"},
)
def gated_recurrent_unit(params: Tree, batch: Tree) -> Any:
    """A training step through time, weights split by columns."""

    def cell(p: Tree, h: Any, x: Any) -> Any:
        (rx, zx, nx), (rh, zh, nh) = jnp.split(x @ p["w"], 3, -1), jnp.split(h @ p["u"], 3, -1)
        z = jax.nn.sigmoid(zx + zh)
        h = z * h + (1 - z) * jnp.tanh(nx + jax.nn.sigmoid(rx + rh) * nh)
        return h, None

    def loss(p: Tree) -> Any:
        h, _ = lax.scan(lambda h, x: cell(p, h, x), jnp.zeros((8, 16)), batch["x"])
        return jnp.mean((h - batch["y"]) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return adam_from_zero(params, grads), value


@net(
    {
        "ahead": {"w": array(16, 64), "u": array(16, 64)},
        "back": {"w": array(16, 64), "u": array(16, 64)},
        "tags": array(32, 9),
    },
    array(10, 8, 16),
    args={"params/ahead": "-,model", "params/back": "-,model", "x": "-,data,-"},
)
def both_ways_lstm(params: Tree, x: Any) -> Any:
    """One from the start, one from the end, and a tag for each word from both."""
    zeros = (jnp.zeros((8, 16)), jnp.zeros((8, 16)))
    _, ahead = lax.scan(lambda c, x: lstm_cell(params["ahead"], c, x), zeros, x)
    _, back = lax.scan(lambda c, x: lstm_cell(params["back"], c, x), zeros, x, reverse=True)
    return jax.nn.log_softmax(jnp.concatenate([ahead, back], -1) @ params["tags"])


@net(
    {"w": array(3, 16, 64), "u": array(3, 16, 64)},
    array(8, 6, 16),
    args={"params": "-,-,model", "x": "-,data,-"},
    mesh=ODD,
)
def stacked_lstm(params: Tree, x: Any) -> Any:
    """Layers in a loop, and in each a loop over time; six devices."""
    zeros = (jnp.zeros((6, 16)), jnp.zeros((6, 16)))

    def layer(h: Any, p: Tree) -> Any:
        last, out = lax.scan(lambda c, x: lstm_cell(p, c, x), zeros, h)
        return out, last

    return lax.scan(layer, x, params)


@net(
    {
        "inner": array(16, 64),
        "delta": array(32, 32),
        "b": array(32, 4),
        "c": array(32, 4),
        "log_a": array(32, 4),
        "out": array(32, 16),
    },
    {"x": array(4, 32, 16), "y": array(4, 32, 16)},
    args={"params/inner": "-,model", "params/log_a": "model,-", "params/out": "model,-", "batch": "data,-,-"},
)
def selective_state_space(params: Tree, batch: Tree) -> Any:
    """A training step of a state space whose decay depends on the token, by an associative scan; channels split."""

    def join(one: Any, other: Any) -> Any:
        return one[0] * other[0], one[1] * other[0] + other[1]

    def loss(p: Tree) -> Any:
        u, gate = jnp.split(batch["x"] @ p["inner"], 2, -1)
        delta = jax.nn.softplus(u @ p["delta"])
        decay = jnp.exp(-delta[..., None] * jax.nn.softplus(p["log_a"]))
        into = (delta * u)[..., None] * (u @ p["b"])[:, :, None]
        _, states = lax.associative_scan(join, (decay, into), axis=1)
        out = jnp.einsum("btdn,btn->btd", states, u @ p["c"]) * jax.nn.silu(gate)
        return jnp.mean((out @ p["out"] - batch["y"]) ** 2)

    return descend(params, jax.grad(loss)(params))


@net(array(4, 64, 16), array(4, 64, 16), args={"decay": "data,model,-", "x": "data,model,-"})
def linear_recurrence_over_split_time(decay: Any, x: Any) -> Any:
    """A diagonal recurrence by an associative scan along the dimension that is split."""
    gate = jax.nn.sigmoid(decay)
    return lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (gate, (1 - gate) * x), axis=1)[1]


@net(
    {
        "r": array(32, 32),
        "k": array(32, 32),
        "v": array(32, 32),
        "w": array(32),
        "bonus": array(32),
        "mix": array(3, 32),
    },
    array(4, 16, 32),
    args={"params/r": "-,model", "params/k": "-,model", "params/v": "-,model", "params/w": "model", "x": "data,-,-"},
)
def receptance_weighted(params: Tree, x: Any) -> Any:
    """Tokens mixed with the one before, then weighted sums whose weights decay, numerators and denominators carried."""
    before = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    r, k, v = ((x * m + before * (1 - m)) @ params[name] for name, m in zip("rkv", params["mix"], strict=True))
    fade = jnp.exp(-jax.nn.softplus(params["w"]))

    def step(carry: Any, kv: Any) -> Any:
        (up, down), (k, v) = carry, kv
        weight, now = jnp.exp(k), jnp.exp(params["bonus"] + k)
        out = (up + now * v) / (down + now)
        return (fade * up + weight * v, fade * down + weight), out

    zeros = jnp.zeros((4, 32))
    _, out = lax.scan(step, (zeros, zeros), (0.1 * k.swapaxes(0, 1), v.swapaxes(0, 1)))
    return jax.nn.sigmoid(r) * out.swapaxes(0, 1)


@net(
    array(4, 8, 4, 8, 16),
    array(4, 8, 4, 8, 16),
    array(4, 8, 4, 8, 16),
    args={"q": "data,-,model,-,-", "k": "data,-,model,-,-", "v": "data,-,model,-,-"},
)
def retention_by_chunks(q: Any, k: Any, v: Any) -> Any:
    """Linear attention with decay: inside of a chunk all with all, between chunks a carried state. [b, chunk, head, t, d]."""
    gamma = 1 - 2.0 ** (-3 - jnp.arange(4.0))
    place = jnp.arange(8)
    gap = place[:, None] - place
    mask = jnp.where(gap >= 0, gamma[:, None, None] ** gap, 0)

    def chunk(state: Any, one: Any) -> Any:
        q, k, v = one
        inside = jnp.einsum("bhtd,bhsd,hts,bhse->bhte", q, k, mask, v)
        across = jnp.einsum("bhtd,bhde,ht->bhte", q, state, gamma[:, None] ** (place + 1))
        fresh = jnp.einsum("bhsd,bhse,hs->bhde", k, v, gamma[:, None] ** (7 - place))
        return state * (gamma**8)[:, None, None] + fresh, inside + across

    state, out = lax.scan(chunk, jnp.zeros((4, 4, 16, 16)), jax.tree.map(lambda a: a.swapaxes(0, 1), (q, k, v)))
    return out.swapaxes(0, 1), state


@net(
    {"start": array(12), "move": array(12, 12), "emit": array(12, 30)},
    ints(8, 20),
    args={"words": "data,-"},
    mesh=LINE,
)
def hidden_markov(params: Tree, words: Any) -> Any:
    """How likely sentences are, and the gradient of that."""

    def loss(p: Tree) -> Any:
        start, move, emit = (jax.nn.log_softmax(p[name]) for name in ("start", "move", "emit"))
        seen = emit.T[words].swapaxes(0, 1)

        def step(alpha: Any, now: Any) -> Any:
            return jax.nn.logsumexp(alpha[:, :, None] + move, axis=1) + now, None

        alpha, _ = lax.scan(step, start + seen[0], seen[1:])
        return -jax.nn.logsumexp(alpha, -1).mean()

    return jax.value_and_grad(loss)(params)


@net({"move": array(8, 8)}, array(16, 8, 8), args={"scores": "data+model,-,-"})
def viterbi(params: Tree, scores: Any) -> Any:
    """The best path: forward with pointers, and back along these. [sentence, time, tag]."""

    def ahead(best: Any, now: Any) -> Any:
        ways = best[:, :, None] + params["move"]
        return ways.max(1) + now, jnp.argmax(ways, 1)

    last, pointers = lax.scan(ahead, scores[:, 0], scores[:, 1:].swapaxes(0, 1))
    end = jnp.argmax(last, -1)

    def back(tag: Any, pointer: Any) -> Any:
        before = jnp.take_along_axis(pointer, tag[:, None], 1)[:, 0]
        return before, before

    _, path = lax.scan(back, end, pointers, reverse=True)
    return last.max(-1), jnp.concatenate([path, end[None]]).T


@net(array(8, 24, 12), ints(8, 6), args={"logits": "data,-,-", "labels": "data,-"}, mesh=LINE)
def connectionist_temporal_loss(logits: Any, labels: Any) -> Any:
    """The loss of an alignment that nobody knows, blanks between labels, and its gradient. [sound, time, letter]."""

    def loss(logits: Any) -> Any:
        words = jnp.stack([jnp.zeros_like(labels), labels], -1).reshape(8, 12)
        scores = jnp.take_along_axis(jax.nn.log_softmax(logits), words[:, None, :], 2)
        may_skip = (words != 0) & (words != jnp.roll(words, 2, 1))
        low = -1e9

        def step(alpha: Any, now: Any) -> Any:
            one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=low)[:, :-1]
            two = jnp.where(may_skip, jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=low)[:, :-2], low)
            return jax.nn.logsumexp(jnp.stack([alpha, one, two]), axis=0) + now, None

        start = jnp.where(jnp.arange(12) < 2, scores[:, 0], low)
        alpha, _ = lax.scan(step, start, scores[:, 1:].swapaxes(0, 1))
        return -jnp.logaddexp(alpha[:, -1], alpha[:, -2]).mean()

    return jax.value_and_grad(loss)(logits)


@net(array(4, 12, 16), array(4, 12, 16), args={"sounds": "data,-,model", "words": "data,-,model"})
def transducer(sounds: Any, words: Any) -> Any:
    """The lattice of sounds and words, one diagonal after the other. Log probabilities of blanks come from the sum."""
    joint = jnp.tanh(sounds[:, :, None] + words[:, None])
    blank, emit = jax.nn.log_sigmoid(joint.sum(-1)), jax.nn.log_sigmoid(-joint.mean(-1))

    def row(alpha: Any, now: Any) -> Any:
        blank, emit = now
        start = alpha + blank

        def cell(left: Any, here: Any) -> Any:
            top, step = here
            new = jnp.logaddexp(top, left + step)
            return new, new

        _, out = lax.scan(cell, jnp.full(4, -1e9), (start.T, emit.T))
        return out.T, None

    alpha, _ = lax.scan(row, jnp.zeros((4, 12)), (blank.swapaxes(0, 1), emit.swapaxes(0, 1)))
    return alpha[:, -1]


@net(array(8, 16), array(8, 20), args={"one": "data,-", "other": "data,-"}, mesh=LINE)
def aligned_series(one: Any, other: Any) -> Any:
    """Dynamic time warping with soft minima, along antidiagonals: a wavefront."""
    costs = (one[:, :, None] - other[:, None]) ** 2
    skewed = jnp.stack([jnp.pad(costs[:, i], ((0, 0), (i, 15 - i)), constant_values=1e6) for i in range(16)], 1)

    def front(carry: Any, cost: Any) -> Any:
        before, last = carry

        def shift(x: Any) -> Any:
            return jnp.pad(x, ((0, 0), (1, 0)), constant_values=1e6)[:, :-1]

        new = cost - jax.nn.logsumexp(-jnp.stack([last, shift(last), shift(before)]), axis=0)
        return (last, new), None

    far = jnp.full((8, 16), 1e6)
    begin = (far, far.at[:, 0].set(skewed[:, 0, 0]))
    (_, last), _ = lax.scan(front, begin, skewed[:, :, 1:].transpose(2, 0, 1))
    return last[:, -1]


@net(
    {"in": array(16, 64), "res": array(64, 64), "out": array(64, 8)},
    array(8, 20, 16),
    args={"params/in": "-,model", "params/res": "model,-", "params/out": "model,-", "x": "data,-,-"},
)
def echo_state(params: Tree, x: Any) -> Any:
    """A reservoir that does not learn, and the readout that fits it best, by normal equations."""

    def step(h: Any, x: Any) -> Any:
        h = 0.7 * h + 0.3 * jnp.tanh(x @ params["in"] + 0.05 * h @ params["res"])
        return h, h

    _, states = lax.scan(step, jnp.zeros((8, 64)), x.swapaxes(0, 1))
    flat = states.reshape(-1, 64)
    gram = flat.T @ flat + 160 * jnp.eye(64)
    return jnp.linalg.solve(gram, flat.T @ x.swapaxes(0, 1).reshape(-1, 16)[:, :8]), states @ params["out"]
