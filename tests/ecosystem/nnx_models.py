"""Models of flax nnx: state in graphs, transformed and stepped."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program


@program("flax")
def nnx_decoding_with_a_cache() -> Case:
    from flax import nnx

    attention = nnx.MultiHeadAttention(4, WIDTH, 16, decode=True, rngs=nnx.Rngs(0))
    attention.init_cache((4, 6, WIDTH))

    @nnx.jit
    def decode(attention: Any, x: Any) -> Any:
        return attention(x)

    shardings = {
        "x": "data",
        "cached_(key|value)": P("data", None, "model"),
        "(query|key|value)/kernel": P(None, "model"),
    }
    return Case(decode, (attention, batch(4, 1, WIDTH)), shardings)


@program("flax")
def nnx_recurrent() -> Case:
    from flax import nnx

    graph, state = nnx.split(nnx.RNN(nnx.GRUCell(WIDTH, 16, rngs=nnx.Rngs(0))))

    def apply(state: Any, x: Any) -> Any:
        return nnx.merge(graph, state)(x)

    return Case(apply, (state, batch(4, 5, WIDTH)), {"x": "data", "dense_[ih]/kernel": P(None, "model")})


@program("flax")
def nnx_scanned_layers() -> Case:
    from flax import nnx

    class Layer(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.linear = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.dropout(nnx.tanh(self.linear(x)))

    @nnx.split_rngs(splits=3)
    @nnx.vmap
    def layers(rngs: Any) -> Any:
        return Layer(rngs)

    @nnx.jit
    def apply(model: Any, x: Any) -> Any:
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        @nnx.remat
        def forward(x: Any, layer: Any) -> Any:
            return layer(x)

        return forward(x, model)

    return Case(apply, (layers(nnx.Rngs(0)), batch()), {"x": "data", "linear/kernel$": P(None, None, "model")})


@program("flax", "optax", long=True)
def nnx_ensemble_training() -> Case:
    import optax
    from flax import nnx

    @nnx.split_rngs(splits=4)
    @nnx.vmap
    def models(rngs: Any) -> Any:
        norm = nnx.BatchNorm(16, rngs=rngs)
        return nnx.Sequential(nnx.Linear(WIDTH, 16, rngs=rngs), norm, nnx.relu, nnx.Linear(16, 1, rngs=rngs))

    model = models(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
        def loss(model: Any) -> Any:
            answers = nnx.vmap(lambda model, x: model(x), in_axes=(0, None))(model, x)
            return ((answers[..., 0] - y) ** 2).mean()

        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    shardings = {"x": "data", "y": "data", "^model/.*(kernel|bias|scale|mean|var)": P("model")}
    return Case(step, (model, optimizer, batch(), jnp.ones(BATCH)), shardings)


@program("flax")
def nnx_adapters() -> Case:
    from flax import nnx

    model = nnx.LoRA(WIDTH, 4, 16, base_module=nnx.Linear(WIDTH, 16, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    graph, adapters, rest = nnx.split(model, nnx.LoRAParam, ...)

    def loss(adapters: Any, rest: Any, x: Any) -> Any:
        return (nnx.merge(graph, adapters, rest)(x) ** 2).mean()

    shardings = {"x": "data", "lora_b/value$": P(None, "model"), "base_module/kernel/value$": P(None, "model")}
    return Case(jax.value_and_grad(loss), (adapters, rest, batch()), shardings)
