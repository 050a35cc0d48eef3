"""Models of Keras on JAX: layers by name, with state and optimizer handed in and out."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, Case, batch, program

os.environ.setdefault("KERAS_BACKEND", "jax")  # read when keras is imported


def values(variables: Any) -> list[Any]:
    return [variable.value for variable in variables]


@program("keras", long=True)
def keras_recurrent_attention() -> Case:
    import keras

    layers = keras.layers
    read = keras.Input((12, BATCH))
    both = layers.Bidirectional(layers.GRU(BATCH, return_sequences=True))(read)
    seen = layers.Conv1D(BATCH, 3, padding="causal")(layers.MultiHeadAttention(4, 8)(both, both))
    model = keras.Model(read, layers.Dense(8)(layers.GlobalMaxPooling1D()(seen)))

    def gradient(weights: Any, state: Any, x: Any) -> Any:
        return jax.value_and_grad(lambda weights: (model.stateless_call(weights, state, x)[0] ** 2).mean())(weights)

    args = values(model.trainable_variables), values(model.non_trainable_variables), batch(8, 12, BATCH)
    return Case(gradient, args, {"x": P("data", None, "model")})


@program("keras", long=True)
def keras_step_of_adam() -> Case:
    """An embedding that masks zeros, an LSTM, and an optimizer without state of its own."""
    import keras

    layers = keras.layers
    read = keras.Input((10,), dtype="int32")
    model = keras.Model(read, layers.Dense(64)(layers.LSTM(BATCH)(layers.Embedding(64, BATCH, mask_zero=True)(read))))
    optimizer = keras.optimizers.Adam(1e-2)
    optimizer.build(model.trainable_variables)

    def step(weights: Any, state: Any, moments: Any, x: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            made, _ = model.stateless_call(weights, state, x)
            return keras.losses.sparse_categorical_crossentropy(y, made, from_logits=True).mean()

        lost, gradients = jax.value_and_grad(loss)(weights)
        return lost, *optimizer.stateless_apply(moments, gradients, weights)

    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.integers(0, 64, shape), jnp.int32) for shape in ((8, 10), (8,)))
    weights, state = values(model.trainable_variables), values(model.non_trainable_variables)
    args = weights, state, values(optimizer.variables), x, y
    return Case(step, args, {"x": "data", "y": "data", "weights[0]": P("model")})
