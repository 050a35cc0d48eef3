"""A mixture of experts with one-hot dispatch: an all_to_all to the experts and one back, forward and backward each.

Source: Lepikhin et al., "GShard". Of `G` groups of tokens and `E` experts over `N` devices a device has `G / N` groups;
it fills `C` slots of `M` features for every expert and group, and hands all of these but its own experts' on:
`E · (G / N) · C · M · (N − 1) / N` elements.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardwright.mesh import Mesh
from tests.partition.strategies.layers import F32, Keep, as_it_is, float32, keep_on, partitioned, sent

N = 8
MESH = Mesh(expert=N)
G, S, M, H, E, C = (
    8,
    64,
    128,
    256,
    8,
    12,
)  # groups, tokens of one, width, width inside, experts, slots of one in a group
EXCHANGED = E * (G / N) * C * M * F32 * (N - 1) / N

PARAMS = {"gate": float32(M, E), "up": float32(E, M, H), "down": float32(E, H, M)}
X = float32(G, S, M)
ARGS = {"params/up": "expert,.,.", "params/down": "expert,.,.", "params/gate": ".,.", "x": "expert,.,."}


def routed(x: Any, gate: Any) -> tuple[Any, Any]:
    """One expert a token, as long as it has slots: which slot it takes, and with what weight it comes back. [g, s, e, c]"""
    weights = jax.nn.softmax(x @ gate)
    mask = jax.nn.one_hot(jnp.argmax(weights, -1), E)
    place = (jnp.cumsum(mask, 1) - 1) * mask
    slots = jax.nn.one_hot(place.sum(-1).astype(jnp.int32), C)[:, :, None] * (mask * (place < C))[..., None]
    return slots, slots * weights[..., None]


def mixture(p: Any, x: Any, keep: Keep) -> Any:
    dispatch, combine = (keep(mask, "expert") for mask in routed(x, p["gate"]))
    slots = keep(jnp.einsum("gsec,gsm->egcm", dispatch, x), "expert")
    hidden = jax.nn.gelu(jnp.einsum("egcm,emh->egch", slots, p["up"]))
    out = keep(jnp.einsum("egch,ehm->egcm", hidden, p["down"]), "expert")
    return x + jnp.einsum("gsec,egcm->gsm", combine, out)


@pytest.mark.parametrize("keep", [as_it_is, keep_on(MESH)], ids=["weights", "activations"])
def test_tokens_go_to_their_experts_and_back(keep: Keep) -> None:
    """Whether a user says how the slots lie, or how the weights of experts do and no more."""
    spmd = partitioned(lambda params, x: mixture(params, x, keep), PARAMS, X, mesh=MESH, args=ARGS)
    assert sent(spmd) == {"all_to_all": (2, 2 * EXCHANGED)}


@pytest.mark.parametrize("keep", [as_it_is, keep_on(MESH)], ids=["weights", "activations"])
def test_gradients_go_the_same_ways_once_more(keep: Keep) -> None:
    def both_ways(params: Any, x: Any, dy: Any) -> Any:
        y, back = jax.vjp(lambda p, x: mixture(p, x, keep), params, x)
        return y, back(dy)

    spmd = partitioned(both_ways, PARAMS, X, X, mesh=MESH, args={**ARGS, "dy": "expert,.,."})
    gate = 2 * M * E * F32 * (N - 1) / N  # all devices have it
    assert sent(spmd) == {"all_to_all": (4, 4 * EXCHANGED), "all_reduce": (1, gate)}
    if keep is as_it_is:
        spmd.verify().require()
