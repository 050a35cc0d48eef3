"""Functions that libraries jit in ways of their own, as `nnx.jit` and `equinox.filter_jit` do: here by one like them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

MESH = sw.Mesh(data=2, model=4)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 8)).astype(np.float32)


class Model:
    """No tree of arrays, and changed in place."""

    def __init__(self) -> None:
        self.w = jnp.asarray(np.random.default_rng(1).normal(size=(8, 16)), jnp.float32)
        self.steps = 0


def _model(_: None, leaves: Any) -> Model:
    model = Model()
    (model.w,) = leaves
    return model


jax.tree_util.register_pytree_with_keys(
    Model, lambda model: (((jax.tree_util.GetAttrKey("w"), model.w),), None), _model
)


def _pure(w: Any, x: Any) -> Any:
    return w - 0.1 * x.T @ jnp.tanh(x @ w), jnp.tanh(x @ w).sum()


def _after(model: Model, out: Any) -> Any:
    model.w, loss = out
    model.steps += 1
    return loss


@dataclass
class _Compiled:
    compiled: Any

    def __call__(self, model: Model, x: Any) -> Any:
        return _after(model, self.compiled(model.w, x))


@dataclass
class _Lowered:
    lowered: jax.stages.Lowered

    def compile(self) -> _Compiled:
        return _Compiled(self.lowered.compile())


class _Jitted:
    def __init__(self) -> None:
        self.jitted = jax.jit(_pure)

    def __call__(self, model: Model, x: Any) -> Any:
        return _after(model, self.jitted(model.w, x))

    def lower(self, model: Model, x: Any) -> _Lowered:
        return _Lowered(self.jitted.lower(model.w, x))


def test_a_function_of_a_library_is_called_as_that_is() -> None:
    train, model, expected = _Jitted(), Model(), Model()
    program = sw.from_jax(train, model, X)
    assert list(program.arguments) == ["model/w", "x"]
    spmd = program.shard(MESH, {"model/w": P(None, "model"), "x": "data"}).partition()
    assert spmd.verify().ok
    step = spmd.compile(trial=False)
    for _ in range(3):
        np.testing.assert_allclose(step(model, X), train(expected, X), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.w, expected.w, rtol=1e-4, atol=1e-4)
    assert model.steps == 3
    assert model.w.sharding.is_equivalent_to(step.in_shardings[0], 2)
    assert step.as_text().startswith("HloModule")


def test_it_is_jitted_by_us() -> None:
    train, model, expected = _Jitted(), Model(), Model()
    train.__name__ = "train"  # type: ignore[attr-defined]
    step = sw.jit(train, MESH, {"x": "data"})
    for _ in range(2):
        np.testing.assert_allclose(step(model, X), train(expected, X), rtol=1e-4, atol=1e-4)
    assert model.steps == 2


def test_options_and_places_are_the_librarys_own() -> None:
    with pytest.raises(sw.ShardingError, match="is jitted already, and donate_argnums was given"):
        sw.from_jax(_Jitted(), Model(), X, donate_argnums=0)
    with pytest.raises(sw.ShardingError, match="0 positional arguments, 2 arguments in its module"):
        sw.from_jax(_Jitted(), Model(), X).shard(MESH, (None, "data", None))
