"""Programs of JAX's libraries: sharded, verified, compiled, called as they are, and given to `jax.jit` with our shardings.

What is not installed is skipped and said; `-m long` has those that take long to compile. The libraries are no
dependency of ours: `pip install flax optax equinox dm-haiku diffrax optimistix lineax numpyro jaxopt jraph distrax chex`
has most of them, and `pip install blackjax flowjax evosax mctx rlax tensorflow-probability ott-jax e3nn-jax tinygp dynamax
jax-md jax-cfd jaxlie interpax pgx svgwrite gymnax seaborn keras` the others.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import shardwright as sw
from shardwright.runtime.call import JaxCall
from tests.ecosystem import (  # noqa: F401  # they register their programs
    functional,
    games,
    graphs,
    inference,
    keras_models,
    layers,
    losses,
    models,
    nnx_models,
    sampling,
    science,
    solvers,
    training,
)
from tests.ecosystem.programs import PROGRAMS, Case
from tests.frontends.devices import eight_devices

eight_devices()

MESH = {"data": 2, "model": 4}
CASES = [
    pytest.param(name, marks=[pytest.mark.long] if entry.is_long else [], id=name) for name, entry in PROGRAMS.items()
]


def close(one: Any, other: Any) -> None:
    def same(a: Any, b: Any) -> None:
        if not isinstance(a, jax.Array | np.ndarray):  # functions and numbers that models have
            assert a == b
            return
        if jax.numpy.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = map(jax.random.key_data, (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)

    jax.tree.map(same, one, other)


def copied(case: Case) -> tuple[Any, ...]:
    """Arguments that may be donated, and changed in place."""
    args: tuple[Any, ...] = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, case.args)
    return args


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("name", CASES)
def test_a_program_of_the_ecosystem(name: str) -> None:
    entry = PROGRAMS[name]
    if entry.missing:
        pytest.skip(f"not installed: {', '.join(entry.missing)}")
    case = entry.make()
    program = sw.from_jax(case.function, *case.args, **case.options)
    plan = program.shard(MESH, case.shardings)
    assert any(not sharding.is_replicated for sharding in plan.arguments.values())
    spmd = plan.partition()
    spmd.verify().require()
    expected = case.function(*copied(case))
    close(spmd.compile(trial=False)(*copied(case)), expected)
    if isinstance(program.call, JaxCall) and program.call.stage is None:
        jitted = jax.jit(case.function, in_shardings=plan.in_shardings, out_shardings=plan.out_shardings)
        close(jitted(*copied(case)), expected)


def test_there_are_many() -> None:
    assert len(PROGRAMS) >= 126
    assert sum(not entry.is_long for entry in PROGRAMS.values()) >= 48
