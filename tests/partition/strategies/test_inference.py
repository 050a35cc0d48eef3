"""The layouts of feed-forward layers of Pope et al., "Efficiently Scaling Transformer Inference", section 3.2.

`T` tokens of `E` features, `F` inside, over `n = X · Y` devices; elements that a device sends in a layer, with the
`(k − 1) / k` of a ring of `k` devices that the paper leaves out:

    1D weight-stationary    2·T·E                           of n
    2D weight-stationary    2·T·E/X of Y, 2·T·F/Y of X
    weight-gathered by X    2·T·E/X of Y, 2·E·F/Y of X
    weight-gathered by all  2·E·F of n

Each is taken where it pays: the fewer the tokens, the more of the weights stay where they are.
"""

from __future__ import annotations

from typing import Any

import jax

from shardwright.mesh import Mesh
from shardwright.program import Spmd
from tests.partition.strategies.layers import F32, float32, keep_on, partitioned, sent

E, F = 256, 1024
X, Y = 2, 4
N = X * Y
MESH, LINE = Mesh(x=X, y=Y), Mesh(n=N)
LAYERS = 2
FEW, MANY, MOST = 32, 2048, 8192
"""Tokens."""


def ring(devices: int) -> float:
    return (devices - 1) / devices


def layers(mesh: Mesh, tokens: int, up: str, down: str, between: tuple[Any, ...], inside: Any = None) -> Spmd:
    """Layers of weights that lie so, with activations that lie so between them and, where that is said, inside."""
    keep = keep_on(mesh)

    def forward(params: Any, x: Any) -> Any:
        for p in params:
            hidden = x @ p["up"]
            hidden = hidden if inside is None else keep(hidden, *inside)
            x = keep(jax.nn.gelu(hidden) @ p["down"], *between)
        return x

    params = [{"up": float32(E, F), "down": float32(F, E)}] * LAYERS
    args = {f"params/{n}/{name}": spec for n in range(LAYERS) for name, spec in (("up", up), ("down", down))}
    x = jax.sharding.PartitionSpec(*between)
    spmd = partitioned(forward, params, float32(tokens, E), mesh=mesh, args={**args, "x": x})
    spmd.verify().require()
    return spmd


def test_1d_weight_stationary_gathers_activations_and_scatters_their_sum() -> None:
    spmd = layers(LINE, FEW, ".,n", "n,.", (None, "n"), (None, "n"))
    half = (LAYERS, LAYERS * FEW * E * F32 * ring(N))
    assert sent(spmd) == {"all_gather": half, "reduce_scatter": half}


def test_1d_weight_stationary_with_whole_activations_reduces_them() -> None:
    spmd = layers(LINE, FEW, ".,n", "n,.", (None, None))
    assert sent(spmd) == {"all_reduce": (LAYERS, LAYERS * 2 * FEW * E * F32 * ring(N))}


def test_2d_weight_stationary_does_so_along_one_axis_outside_and_along_the_other_inside() -> None:
    spmd = layers(MESH, FEW, "x,y", "y,x", (None, ("x", "y")), (None, ("y", "x")))
    half = FEW * E / X * F32 * ring(Y) + FEW * F / Y * F32 * ring(X)
    halves = (2 * LAYERS, LAYERS * half)
    assert sent(spmd) == {"all_gather": halves, "reduce_scatter": halves}


def test_2d_weight_stationary_with_hidden_features_left_reduces_them_instead() -> None:
    spmd = layers(MESH, FEW, "x,y", "y,x", (None, ("x", "y")))
    half = (LAYERS, LAYERS * FEW * E / X * F32 * ring(Y))
    inside = (LAYERS, LAYERS * 2 * FEW * F / Y * F32 * ring(X))
    assert sent(spmd) == {"all_gather": half, "reduce_scatter": half, "all_reduce": inside}


def test_weight_gathered_by_an_axis_gathers_weights_along_it_and_activations_along_the_other() -> None:
    spmd = layers(MESH, MANY, "x,y", "y,x", ("x", "y"))
    activations = MANY / X * E * F32 * ring(Y)
    weights = 2 * E * F / Y * F32 * ring(X)
    assert sent(spmd) == {
        "all_gather": (3 * LAYERS, LAYERS * (activations + weights)),
        "reduce_scatter": (LAYERS, LAYERS * activations),
    }


def test_weight_gathered_by_all_devices_sends_weights_alone() -> None:
    """Of a weight with both dimensions split each is gathered by a collective of its own: together one of all devices."""
    spmd = layers(MESH, MOST, "x,y", "y,x", (("x", "y"), None))
    assert sent(spmd) == {"all_gather": (4 * LAYERS, LAYERS * 2 * E * F * F32 * ring(N))}
