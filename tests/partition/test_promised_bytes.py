"""What moving, windowed and ordered ops send at most when the dimension that they work along is split over 4 devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.notation import modules
from tests.oracles.xla_many import costs_of

MESH = sw.Mesh(x=4)
ROWS = (4096, 256)


def drawn(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(11).standard_normal(shape, dtype=np.float32)


@dataclass(frozen=True)
class Promise:
    """A program, how its arguments lie, and the bytes that a device sends at most."""

    program: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    split: tuple[str, ...]
    at_most: float

    @property
    def plan(self) -> sw.Plan:
        program = sw.from_jax(self.program, *(drawn(*shape) for shape in self.shapes))
        return program.shard(MESH, args=dict(enumerate(self.split)))


def convolved(groups: int, numbers: tuple[str, str, str], padding: str = "SAME") -> Callable[[Any, Any], Any]:
    def convolve(image: Any, kernel: Any) -> Any:
        ones = (1,) * (image.ndim - 2)
        return jax.lax.conv_general_dilated(
            image, kernel, ones, padding, dimension_numbers=numbers, feature_group_count=groups
        )

    return convolve


def pooled(image: Any) -> Any:
    return jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def embedded(table: Any, weights: Any) -> Any:
    tokens = np.arange(64) * 7 % 100
    return jax.grad(lambda table: (table[tokens] * weights).sum())(table)


PROMISES = {
    "argmax along": Promise(lambda x: jnp.argmax(x, 1), ((256, 4096),), ("-,x",), 6_144),
    "depthwise convolution": Promise(
        convolved(512, ("NWC", "WIO", "NWC")), ((8, 256, 512), (3, 1, 512)), ("-,-,x", "-,-,x"), 0
    ),
    "grouped convolution": Promise(
        convolved(8, ("NWC", "WIO", "NWC")), ((8, 256, 64), (3, 8, 64)), ("-,-,x", "-,-,x"), 0
    ),
    "max pool": Promise(pooled, ((1, 256, 256, 16),), ("-,x,-,-",), 0),
    "convolution": Promise(
        convolved(1, ("NHWC", "HWIO", "NHWC")), ((4, 64, 64, 64), (3, 3, 64, 64)), ("-,x,-,-", "-,-,-,-"), 131_072
    ),
    "roll": Promise(lambda x: jnp.roll(x, 1, 0), (ROWS,), ("x,-",), 1_024),
    "pad and cut": Promise(lambda x: jax.lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 0))), (ROWS,), ("x,-",), 1_024),
    "concatenate": Promise(lambda a, b: jnp.concatenate([a, b]), (ROWS, ROWS), ("x,-", "x,-"), 3_145_728),
    "every second": Promise(lambda x: x[::2], (ROWS,), ("x,-",), 0),
    "fft of a batch": Promise(lambda x: jnp.abs(jnp.fft.fft(x)), (ROWS,), ("x,-",), 0),
    "embedding gradient": Promise(embedded, ((100, 64), (64, 64)), ("-,-", "x,-"), 2 * 3 / 4 * 100 * 64 * 4),
}


@pytest.mark.parametrize("name", PROMISES)
def test_no_more_is_sent(name: str) -> None:
    promise = PROMISES[name]
    spmd = promise.plan.partition()
    assert spmd.traffic.total.static_bytes <= promise.at_most
    spmd.verify().require()


def test_a_reversal_is_one_permute() -> None:
    spmd = Promise(lambda x: x[::-1], (ROWS,), ("x,-",), 0).plan.partition()
    assert spmd.traffic.kinds.keys() == {"collective_permute"}
    assert spmd.traffic.total.static == 1
    spmd.verify().require()


@pytest.mark.oracle
def test_a_sort_sends_no_more_than_under_xla() -> None:
    plan = Promise(lambda x: jnp.sort(x, 0), (ROWS,), ("x,-",), 0).plan
    spmd = plan.partition()
    spmd.verify().require()
    (theirs,) = costs_of([modules.located_text(plan.annotated)], MESH.size, local=False)
    assert not isinstance(theirs, str), theirs
    assert spmd.traffic.total.static_bytes <= theirs.sent


def test_seven_rows_stay_split_over_four_devices() -> None:
    spmd = Promise(lambda x, w: jnp.tanh(x @ w), ((7, 64), (64, 32)), ("x,-", "-,-"), 0).plan.partition()
    spmd.verify().require()
    assert not spmd.traffic.total.static
    costs = costs_of([spmd.module("local"), module_of_two_rows()], MESH.size, local=True)
    ours, two = (cost.work for cost in costs if not isinstance(cost, str))
    assert ours <= two


def module_of_two_rows() -> str:
    """The same of the two rows that a device has, alike on each."""
    program = Promise(lambda x, w: jnp.tanh(x @ w), ((2, 64), (64, 32)), ("-,-", "-,-"), 0)
    return program.plan.partition().module("local")
