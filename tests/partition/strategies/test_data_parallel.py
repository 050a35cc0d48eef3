"""Data parallelism and its shards of weights and optimizer states: traffic and memory of a training step.

Sources: Rajbhandari et al., "ZeRO"; Zhao et al., "PyTorch FSDP". `Ψ` parameters over `N` devices, each by itself:

    data parallel   all_reduce of gradients                                 2Ψ · (N − 1) / N elements
    ZeRO-2          reduce_scatter of gradients, all_gather of parameters    Ψ · (N − 1) / N elements each
    ZeRO-3, FSDP    all_gather forward and backward, reduce_scatter          Ψ · (N − 1) / N elements each

An all_gather of which the result is kept from forward to backward is spared the second time: in a loop over layers
nobody keeps it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.sharding import DimSharding, TensorSharding
from tests.partition.strategies.layers import F32, float32, keep_on, partitioned, sent

N = 8
MESH = Mesh(data=N)
LAYERS, BATCH, D, H = 3, 512, 128, 512
TENSORS = 2 * LAYERS
PSI = LAYERS * 2 * D * H
"""Parameters."""
ACTIVATIONS = BATCH * D

RING = (N - 1) / N
LOSS = (1, 2 * F32 * RING)
"""The all_reduce of the loss, a scalar."""

SHAPES = [{"up": float32(D, H), "down": float32(H, D)}] * LAYERS
X = float32(BATCH, D)
BY_BATCH = {"x": "data,.", "y": "data,."}


def forward(params: Any, x: Any) -> Any:
    for p in params:
        x = x + jnp.tanh(x @ p["up"]) @ p["down"]
    return x


def adam(params: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
    """A step of Adam, without its corrections."""
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((forward(p, x) - y) ** 2))(params)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, grads)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-6), params, first, second)
    return params, first, second, loss


def adam_of_whole_parameters(params: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
    """The step, whose new parameters are whole on every device."""
    params, *others = adam(params, first, second, x, y)
    return (jax.tree.map(keep_on(MESH), params), *others)


def test_data_parallelism_reduces_every_gradient_once() -> None:
    args = {**BY_BATCH, "params": ".,.", "first": ".,.", "second": ".,."}
    spmd = partitioned(adam, SHAPES, SHAPES, SHAPES, X, X, mesh=MESH, args=args)
    assert sent(spmd) == {"all_reduce": (TENSORS + LOSS[0], 2 * PSI * F32 * RING + LOSS[1])}
    assert spmd.memory.arguments == (3 * PSI + 2 * ACTIVATIONS / N) * F32
    spmd.verify().require()


def test_zero2_scatters_gradients_and_gathers_new_parameters() -> None:
    args = {**BY_BATCH, "params": ".,.", "first": "data,.", "second": "data,."}
    spmd = partitioned(adam_of_whole_parameters, SHAPES, SHAPES, SHAPES, X, X, mesh=MESH, args=args)
    half = (TENSORS, PSI * F32 * RING)
    assert sent(spmd) == {"reduce_scatter": half, "all_gather": half, "all_reduce": LOSS}
    assert spmd.memory.arguments == (PSI + 2 * PSI / N + 2 * ACTIVATIONS / N) * F32
    spmd.verify().require()


def test_zero3_gathers_parameters_where_they_are_used() -> None:
    """Without a loop what is gathered forward is there backward."""
    args = {**BY_BATCH, "params": "data,.", "first": "data,.", "second": "data,."}
    spmd = partitioned(adam, SHAPES, SHAPES, SHAPES, X, X, mesh=MESH, args=args)
    half = (TENSORS, PSI * F32 * RING)
    assert sent(spmd) == {"all_gather": half, "reduce_scatter": half, "all_reduce": LOSS}
    assert spmd.memory.arguments == (3 * PSI / N + 2 * ACTIVATIONS / N) * F32
    spmd.verify().require()


def descend(params: Any, x: Any, y: Any) -> Any:
    """A step of gradient descent whose layers are a loop."""
    keep = keep_on(MESH)

    def layer(h: Any, p: Any) -> Any:
        h = keep(h, "data", None)
        return h + jnp.tanh(h @ p["up"]) @ p["down"], None

    loss, grads = jax.value_and_grad(lambda p: jnp.mean((lax.scan(layer, x, p)[0] - y) ** 2))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def test_fsdp_of_a_loop_gathers_forward_and_backward() -> None:
    """The batch is split first, by its priority: else what is kept for the backward pass could lie as the weights do."""
    rows = DimSharding((MESH.axis("data"),), priority=1)
    weights = TensorSharding(MESH, (DimSharding(), rows, DimSharding()))
    stacks = {"up": float32(LAYERS, D, H), "down": float32(LAYERS, H, D)}
    spmd = partitioned(descend, stacks, X, X, mesh=MESH, args={**BY_BATCH, "params": weights})
    once = PSI * F32 * RING
    assert sent(spmd) == {
        "all_gather": (2 * TENSORS, 2 * once),
        "reduce_scatter": (TENSORS, once),
        "all_reduce": LOSS,
    }
    spmd.verify().require()
