"""What a program is said to send is what it sends: the sum over all decisions beside the collectives that are written."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Decisions
from shardwright.partition.fewer_ops import with_fewer_ops
from shardwright.partition.search.total import reshards, times_run, total_seconds
from shardwright.steps import AllReduce, AllSlice
from tests.models.nets.all import NETS
from tests.partition.search.programs import ready

JUST_BYTES = replace(BYTES, start_seconds=0.0)
FEW = random.Random(4).sample(sorted(NETS), 4)


def _check(name: str) -> None:
    plan = NETS[name].plan(evenly=True)
    graph = with_fewer_ops(ready(plan))
    decisions = decide(graph)
    said = total_seconds(graph, decisions, times_run(graph), JUST_BYTES)
    done = plan.partition(effort="fast").traffic.total.executed_bytes
    if _slices_what_is_reduced(decisions):  # counted as the reduce_scatter that XLA makes of it
        assert done <= said
    else:
        assert said == pytest.approx(done)


def _slices_what_is_reduced(decisions: Decisions) -> bool:
    chains = [version.steps for decision in decisions.ops for version in reshards(decision)]
    return any(
        isinstance(one, AllReduce) and isinstance(other, AllSlice) for steps in chains for one, other in pairwise(steps)
    )


@pytest.mark.parametrize("name", FEW)
def test_some_models_send_what_is_said(name: str) -> None:
    _check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in sorted(NETS) if name not in FEW])
def test_every_model_sends_what_is_said(name: str) -> None:
    _check(name)


def test_a_body_counts_as_often_as_it_runs() -> None:
    def f(x: jax.Array, cond: jax.Array) -> Any:
        x = jax.lax.fori_loop(0, 5, lambda _, y: jnp.tanh(y), x)
        x = jax.lax.while_loop(lambda y: jnp.sum(y) > 0, lambda y: y - 1, x)
        return jax.lax.cond(cond, jnp.sin, jnp.cos, x)

    program = sw.from_jax(f, jnp.ones(8), jnp.array(True))
    graph = ready(program.shard(sw.Mesh(x=2), {0: sw.P("x")}))
    times = {op.name: count for op, count in zip(graph.walk(), times_run(graph), strict=True)}
    names = ("tanh", "subtract", "sine", "cosine")
    assert [times[f"stablehlo.{name}"] for name in names] == [5, 1, 0.5, 0.5]
