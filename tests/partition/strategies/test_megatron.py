"""Megatron's tensor parallelism, without and with sequence parallelism: collectives of a layer, and their bytes.

Sources: Shoeybi et al., "Megatron-LM"; Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
Models": two all_reduces forward and two backward in a layer, each of the activations, `2 · B·S·D · (T − 1) / T` elements
on a ring of `T`. Between the blocks of sequence parallelism each becomes a reduce_scatter and an all_gather of half as
much. Gathered activations are kept here for the backward pass; Megatron gathers them once more to spare the memory.
"""

from __future__ import annotations

from typing import Any

import jax
import pytest

from shardwright.mesh import Mesh
from shardwright.program import Spmd
from tests.partition.strategies.layers import (
    F32,
    attention,
    float32,
    keep_on,
    layer_norm,
    partitioned,
    perceptron,
    sent,
)

B, S, D, N, H = 2, 64, 256, 8, 1024  # batch, length, width, heads, width inside; D > B·S: weights are the larger
T = 8
MESH = Mesh(model=T)

WEIGHTS = {
    "q": ((D, N, D // N), "-,model,-"),
    "k": ((D, N, D // N), "-,model,-"),
    "v": ((D, N, D // N), "-,model,-"),
    "o": ((N, D // N, D), "model,-,-"),
    "up": ((D, H), "-,model"),
    "down": ((H, D), "model,-"),
}
NORMS = ("scale1", "bias1", "scale2", "bias2")
SPLIT = {name: spec for name, (_, spec) in WEIGHTS.items()}
RING = (T - 1) / T
HALF = B * S * D * F32 * RING
"""Bytes that a device sends in a reduce_scatter or an all_gather of the activations; in an all_reduce twice as many."""


def inputs(layers: int) -> tuple[Any, Any]:
    """Parameters and activations."""
    shapes = {name: shape for name, (shape, _) in WEIGHTS.items()} | dict.fromkeys(NORMS, (D,))
    return [{name: float32(*shape) for name, shape in shapes.items()} for _ in range(layers)], float32(B, S, D)


def tensor_parallel(params: Any, x: Any) -> Any:
    for p in params:
        x = x + attention(layer_norm(x, p["scale1"], p["bias1"]), p)
        x = x + perceptron(layer_norm(x, p["scale2"], p["bias2"]), p)
    return x


def sequence_parallel(params: Any, x: Any) -> Any:
    """Positions are split between blocks, and heads and inner features inside them."""
    keep = keep_on(MESH)
    for p in params:
        heads = attention(layer_norm(x, p["scale1"], p["bias1"]), p, lambda q: keep(q, None, None, "model", None))
        x = keep(x + heads, None, "model", None)
        inner = perceptron(layer_norm(x, p["scale2"], p["bias2"]), p, lambda h: keep(h, None, None, "model"))
        x = keep(x + inner, None, "model", None)
    return x


def both_ways(function: Any) -> Any:
    """Forward and backward, of parameters and activations."""

    def step(params: Any, x: Any, dy: Any) -> Any:
        y, back = jax.vjp(function, params, x)
        return y, back(dy)

    return step


def compiled(function: Any, layers: int, activations: str, *, backward: bool) -> Spmd:
    params, x = inputs(layers)
    args: dict[str, Any] = {f"params/{n}/{name}": spec for n in range(layers) for name, spec in SPLIT.items()}
    args["x"] = activations
    if not backward:
        return partitioned(function, params, x, mesh=MESH, args=args)
    return partitioned(both_ways(function), params, x, x, mesh=MESH, args=args | {"dy": activations})


@pytest.mark.parametrize("layers", [1, 3])
def test_a_layer_has_two_all_reduces_forward(layers: int) -> None:
    spmd = compiled(tensor_parallel, layers, ".,.,.", backward=False)
    assert sent(spmd) == {"all_reduce": (2 * layers, layers * 2 * (2 * HALF))}


@pytest.mark.parametrize("layers", [1, 3])
def test_a_layer_has_two_all_reduces_forward_and_two_backward(layers: int) -> None:
    spmd = compiled(tensor_parallel, layers, ".,.,.", backward=True)
    assert sent(spmd) == {"all_reduce": (4 * layers, layers * 4 * (2 * HALF))}
    if layers == 1:
        spmd.verify().require()


@pytest.mark.parametrize("layers", [1, 3])
def test_with_sequence_parallelism_each_is_a_reduce_scatter_and_an_all_gather(layers: int) -> None:
    spmd = compiled(sequence_parallel, layers, ".,model,.", backward=False)
    halves = (2 * layers, layers * 2 * HALF)
    assert sent(spmd) == {"all_gather": halves, "reduce_scatter": halves}


@pytest.mark.parametrize("layers", [1, 3])
def test_with_sequence_parallelism_backward_as_well(layers: int) -> None:
    """Layer norms see a part of the positions: the gradients of their parameters are sums over the devices."""
    spmd = compiled(sequence_parallel, layers, ".,model,.", backward=True)
    halves = (4 * layers, layers * 4 * HALF)
    norms = (len(NORMS) * layers, layers * len(NORMS) * 2 * D * F32 * RING)
    assert sent(spmd) == {"all_gather": halves, "reduce_scatter": halves, "all_reduce": norms}
    if layers == 1:
        spmd.verify().require()
