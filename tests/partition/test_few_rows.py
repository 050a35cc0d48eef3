"""Slices of a few rows of a split dimension: mostly one device has them, and they are all that is sent."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session
from tests.partition.shifting import Moving, check_programs, tensor

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "8"))
"""How many random programs are tried."""

X = np.arange(4 * 64 * 8, dtype=np.float32).reshape(4, 64, 8)
ROW = 4 * 8 * 4
"""Bytes of a row along dimension 1."""


@pytest.mark.parametrize("row", [0, 17, 63])
def test_a_row_is_reduced_once(row: int) -> None:
    spmd = sw.from_jax(lambda x: x[:, row], X).shard(sw.Mesh(x=4), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    total = spmd.traffic.total
    assert (total.static, total.static_bytes) == (1, 2 * 3 / 4 * ROW)
    assert not any(note.measure == "sent" for note in spmd.notes)


@pytest.mark.parametrize(("rows", "mesh"), [(slice(-2, None), 4), (slice(14, 22), 4), (slice(0, 4), 8)])
def test_neighbours_are_reduced_once(rows: slice, mesh: int) -> None:
    spmd = sw.from_jax(lambda x: x[:, rows], X).shard(sw.Mesh(x=mesh), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    total, taken = spmd.traffic.total, len(range(64)[rows])
    assert spmd.traffic.kinds.keys() <= {"reduce_scatter", "all_reduce"}
    assert total.static == 1
    assert total.static_bytes <= 2 * (mesh - 1) / mesh * taken * ROW


def test_rows_in_the_middle_stay_where_they_are() -> None:
    spmd = sw.from_jax(lambda x: x[:, 30:34], X).shard(sw.Mesh(x=2), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    assert not spmd.traffic.total.static


def test_more_rows_than_a_shard_has_are_fetched() -> None:
    with Session(hardware=BYTES):
        spmd = sw.from_jax(lambda x: x[:, 10:26], X).shard(sw.Mesh(x=4), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    assert spmd.traffic.kinds.keys() == {"collective_permute"}


def test_a_row_that_is_added_to_a_sum_is_reduced_with_it() -> None:
    spmd = sw.from_jax(lambda x: x[:, 5] + x.sum(1), X).shard(sw.Mesh(x=4), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    assert spmd.traffic.total.static == 1


def test_rows_of_a_partial_sum_are_parts_of_one_sum() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x @ y)[:4]

    x, y = np.resize(X, (64, 512)) % 7, np.resize(X, (512, 16)) % 5
    with Session(hardware=BYTES):
        spmd = sw.from_jax(function, x, y).shard(sw.Mesh(x=2, y=4), args={0: "x,y", 1: "y,-"}).partition(effort="fast")
    (op,) = [op for op in spmd.explicit.walk() if op.name == "stablehlo.slice"]
    assert "partial=sum{x, y}" in repr(spmd.explicit.shardings[op.results[0]])
    spmd.verify().require()


def test_of_two_dimensions_one_device_has_the_element() -> None:
    spmd = sw.from_jax(lambda x: x[3, 40], X).shard(sw.Mesh(x=4, y=2), args={0: "y,x,-"}).partition(effort="fast")
    spmd.verify().require()
    total = spmd.traffic.total
    assert (total.static, total.static_bytes) == (1, 2 * 7 / 8 * 8 * 4)


def test_rows_in_front_of_rows_that_shift() -> None:
    def function(x: Any) -> Any:
        return jnp.concatenate([x[:, :1], x[:, 1:] - x[:, :-1]], 1)

    spmd = sw.from_jax(function, X).shard(sw.Mesh(x=4), args={0: "-,x,-"}).partition(effort="fast")
    spmd.verify().require()
    assert spmd.traffic.total.static_bytes < 16 * ROW


def random_rows(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A few rows along some dimensions and a multiple of the shards along others, repeated where it is one."""
    dims = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    bounds, taken, result = [], [], []
    for dim, (size, count) in enumerate(zip(shape, counts, strict=True)):
        few = rng.choice([1, rng.randint(1, math.isqrt(size))])
        rows = few if dim in dims else count * rng.randint(1, size // count)
        start = rng.randint(0, size - rows)
        stride = rng.choice([1, 2, size]) if rows == 1 else 1
        bounds.append(f"{start}:{start + rows}:{stride}")
        taken.append(rows)
        result.append(count * rng.randint(1, 3) if rows == 1 else -(-rows // count) * count)

    def write(name: str, names: Any, dtype: str) -> str:
        wide = [new if rows == 1 else rows for rows, new in zip(taken, result, strict=True)]
        high = [new - rows for rows, new in zip(wide, result, strict=True)]
        none, dims = [0] * len(shape), list(range(len(shape)))
        types = [tensor(sizes, dtype) for sizes in (shape, taken, wide, result)]
        fill = {"i1": "true", "complex<f32>": "(7.0, 8.0)"}.get(dtype, "7" if dtype in ("i32", "ui8") else "7.0")
        return f"""{name}_rows = stablehlo.slice {names[0]} [{", ".join(bounds)}] : ({types[0]}) -> {types[1]}
      {name}_wide = stablehlo.broadcast_in_dim {name}_rows, dims = {dims} : ({types[1]}) -> {types[2]}
      {name}_fill = stablehlo.constant dense<{fill}> : tensor<{dtype}>
      {name} = stablehlo.pad {name}_wide, {name}_fill, low = {none}, high = {high}, interior = {none}
        : ({types[2]}, tensor<{dtype}>) -> {types[3]}"""

    return Moving((shape,), tuple(result), write)


def test_random_rows() -> None:
    check_programs(random_rows, range(FUZZ))
