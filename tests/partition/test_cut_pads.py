"""Slices of pads: they are one pad where that is split, and devices exchange what this shifts."""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.partition.cut_pads import with_cut_pads
from tests.frontends.devices import eight_devices
from tests.partition.shifting import Moving, check_programs, tensor

eight_devices()

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "8"))
"""How many random programs are tried."""

X = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)


def sharded(function: Any, arg: str = "x,-") -> sw.Spmd:
    """A function of `X` on a mesh of 4 by 2, which computes what it does unsharded."""
    spmd = sw.from_jax(function, X).shard(sw.Mesh(x=4, y=2), args={0: arg}).partition(effort="fast")
    for actual, expected in zip(jax.tree.leaves(spmd.compile()(X)), jax.tree.leaves(function(X)), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
    return spmd


@pytest.mark.parametrize("rows", [1, -1, 3, -16])
def test_rows_that_are_shifted_by_a_pad_and_a_slice_are_all_that_is_sent(rows: int) -> None:
    def function(x: Any) -> Any:
        return jnp.pad(x, ((rows, 0), (0, 0)))[:64] if rows > 0 else jnp.pad(x, ((0, -rows), (0, 0)))[-rows:]

    total = sharded(function).traffic.total
    assert (total.static, total.static_bytes) == (1, abs(rows) * 16 * 4)


def test_the_four_neighbours_of_each_element_are_a_row_or_a_column_each() -> None:
    def function(x: Any) -> Any:
        p = jnp.pad(x, 1)
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]

    total = sharded(function, "x,y").traffic.total
    assert (total.static, total.static_bytes) == (4, 2 * (16 + 8) * 4)


STAYING = {
    "others read the pad": lambda x: (lambda p: (p[:64], p.sum(0)))(jnp.pad(x, ((1, 0), (0, 0)))),
    "the dimension is whole": lambda x: jnp.pad(x, ((0, 0), (1, 0)))[:, :16],
    "rows are taken in steps": lambda x: jnp.pad(x, ((1, 0), (0, 0)))[1::2],
}


@pytest.mark.parametrize("name", STAYING)
def test_others_stay_as_they_are(name: str) -> None:
    propagated = sharded(STAYING[name]).propagated
    assert {"stablehlo.pad", "stablehlo.slice"} <= propagated.op_names()
    assert with_cut_pads(propagated) is propagated


def test_in_a_loop() -> None:
    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, x: x + jnp.pad(x, ((1, 0), (0, 0)))[:-1], x)

    assert sharded(function).traffic.total.executed_bytes == 3 * 16 * 4


def random_cut_pad(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """Padded anyhow, then cut to as many shards; in some dimensions only one of these."""
    padding, ranges, padded, result = [], [], [], []
    for size, count in zip(shape, counts, strict=True):
        between = rng.choice([0, 0, 0, 1, 2])
        wide = size + (size - 1) * between
        low, high = rng.choice([0, 1, rng.randint(-(wide // 3), wide)]), rng.choice([0, 1, rng.randint(0, wide)])
        whole = low + wide + max(high, count - low - wide)
        taken = count * rng.randint(1, whole // count)
        start = rng.choice([0, whole - taken, rng.randint(0, whole - taken)])
        padding.append((low, whole - wide - low, between))
        ranges.append(f"{start}:{start + taken}")
        padded.append(whole)
        result.append(taken)

    def write(name: str, names: Any, dtype: str) -> str:
        fill = {"i1": "true", "complex<f32>": "(7.0, 8.0)"}.get(dtype, "7" if dtype in ("i32", "ui8") else "7.0")
        low, high, between = (list(column) for column in zip(*padding, strict=True))
        types = f"({tensor(shape, dtype)}, tensor<{dtype}>) -> {tensor(padded, dtype)}"
        return f"""{name}_fill = stablehlo.constant dense<{fill}> : tensor<{dtype}>
      {name}_pad = stablehlo.pad {names[0]}, {name}_fill, low = {low}, high = {high}, interior = {between} : {types}
      {name} = stablehlo.slice {name}_pad [{", ".join(ranges)}] : ({tensor(padded, dtype)}) -> {tensor(result, dtype)}"""

    return Moving((shape,), tuple(result), write)


def test_random_pads_that_are_cut() -> None:
    check_programs(random_cut_pad, range(FUZZ))
