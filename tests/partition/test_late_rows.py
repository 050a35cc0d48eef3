"""Rows of a split dimension that elementwise ops narrow: they are narrowed first, and reduced as what they are then."""

from __future__ import annotations

import os
import random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "4"))
"""How many random programs are tried."""

X = np.linspace(-300, 300, 4 * 64 * 8, dtype=np.float32).reshape(4, 64, 8)
ROW = 4 * 8
"""Elements of a row along dimension 1."""
ALL_REDUCED = 2 * 3 / 4 * ROW
"""Bytes that each of four devices sends so that all have a row of elements of one byte."""


def sharded(function: Any, *arguments: Any, args: Any = None, mesh: Any = None, effort: str = "fast") -> sw.Spmd:
    """A function of `X` and more, whose dimension 1 is split in four, which computes what it does unsharded."""
    program = sw.from_jax(function, X, *arguments)
    with Session(hardware=BYTES):
        spmd = program.shard(mesh or sw.Mesh(x=4), args=args or {0: "-,x,-"}).partition(effort=effort)
    spmd.verify().require()
    return spmd


def sent(spmd: sw.Spmd) -> tuple[int, float]:
    total = spmd.traffic.total
    return total.static, total.static_bytes


def quantized(row: Any, scale: Any = 2.0) -> Any:
    return jnp.clip(jnp.round(row / scale), -127, 127).astype(jnp.int8)


@pytest.mark.parametrize("row", [0, 17, 40, 63])
@pytest.mark.parametrize("effort", ["fast", "default"])
def test_a_row_is_reduced_as_what_it_is_quantized_to(effort: str, row: int) -> None:
    assert sent(sharded(lambda x: quantized(x[:, row]), effort=effort)) == (1, ALL_REDUCED)


def test_a_row_that_keeps_its_dimension_is_too() -> None:
    assert sent(sharded(lambda x: quantized(x[:, 17:18]) + 1)) == (1, ALL_REDUCED)


def test_parts_of_a_row_that_meet_again_are_computed_with_it() -> None:
    def function(x: Any) -> Any:
        row = x[:, 17]
        return jnp.where(row > 0, row, row * 0.1).astype(jnp.bfloat16)

    assert sent(sharded(function)) == (1, 2 * ALL_REDUCED)


def test_what_all_devices_have_is_the_same_for_all_rows() -> None:
    scale = np.linspace(1, 2, 8, dtype=np.float32)
    assert sent(sharded(lambda x, scale: quantized(x[:, 17], scale), scale)) == (1, ALL_REDUCED)


def test_of_a_vector_one_element_is() -> None:
    program = sw.from_jax(lambda x: (x[17] / x[:40].size).astype(jnp.int8), X[0, :, 0])
    with Session(hardware=BYTES):
        spmd = program.shard(sw.Mesh(x=4), args={0: "x"}).partition(effort="fast")
    spmd.verify().require()
    assert sent(spmd) == (1, 2 * 3 / 4)


def test_rows_are_split_along_other_dimensions_as_they_were() -> None:
    spmd = sharded(lambda x: quantized(x[:, 17]), args={0: "y,x,-"}, mesh=sw.Mesh(x=4, y=2))
    assert sent(spmd) == (1, ALL_REDUCED / 2)


def test_rows_in_a_loop_are_narrowed_in_each_turn() -> None:
    def function(x: Any) -> Any:
        def turn(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            x, total = carry
            return x * 0.5, total + quantized(x[:, 17])

        return lax.fori_loop(0, 3, turn, (x, jnp.zeros((4, 8), jnp.int8)))

    assert sent(sharded(function)) == (1, ALL_REDUCED)


STAYING = {
    "it is read as it is, too": lambda x: (lambda row: (row * 2 + 1, quantized(row)))(x[:, 17]),
    "it is made wider": lambda x: jnp.exp(x[:, 17].astype(jnp.bfloat16)).astype(jnp.float32) + 1,
    "several rows are": lambda x: quantized(x[:, 17:20]),
}


@pytest.mark.parametrize("name", STAYING)
def test_a_row_is_reduced_where_it_was_if(name: str) -> None:
    sharded(STAYING[name])


def test_a_row_of_what_is_gathered_anyhow_is_taken_from_that() -> None:
    def function(x: Any, w: Any) -> Any:
        return jnp.einsum("asd,bs->abd", x, w), quantized(x[:, 17])

    w = np.ones((64, 64), np.float32)
    spmd = sharded(function, w, args={0: "-,x,-", 1: "x,-"})
    assert spmd.traffic.kinds.keys() == {"all_gather"}


def _step(draw: random.Random, row: Any, others: dict[tuple[int, ...], Any]) -> Any:
    """One more elementwise op on a row."""
    other = others[row.shape] if draw.random() < 0.7 else draw.choice([0.5, 3, 100])
    match draw.randrange(8):
        case 0:
            return row + jnp.asarray(other).astype(row.dtype)
        case 1:
            return jnp.where(row > 1, row, jnp.asarray(other).astype(row.dtype))
        case 2:
            return jnp.clip(row, -100, 100)
        case 3:
            return abs(row)
        case 4:
            return jnp.clip(row, -100, 100).astype(draw.choice([jnp.int8, jnp.int16, jnp.bfloat16, jnp.float32]))
        case 5:
            return row.reshape(draw.choice([shape for shape in others if np.prod(shape) == row.size]))
        case 6:
            return jnp.maximum(row, -row)
        case _:
            return row


@pytest.mark.parametrize("seed", range(FUZZ))
def test_random_ops_on_rows_compute_what_they_do_unsharded(seed: int) -> None:
    def function(x: Any, other: Any) -> Any:
        draw = random.Random(seed)
        place, results = draw.randrange(64), []
        for _ in range(2):
            row = x[:, place : place + 1] if draw.random() < 0.5 else x[:, place]
            for _ in range(draw.randint(1, 7)):
                row = _step(draw, row, {(4, 8): other, (4, 1, 8): other[:, None]})
            results.append(jnp.clip(row, -100, 100).astype(jnp.int8))
        return (x * 2, *results)

    other = np.linspace(-3, 90, 32, dtype=np.float32).reshape(4, 8)
    draw = random.Random(seed)
    split = draw.choice(["-,x,-", "y,x,-", sw.P(None, ("x", "y"), None), "-,y,x"])
    sharded(function, other, args={0: split, 1: draw.choice(["-,-", "y,-", "-,x"])}, mesh=sw.Mesh(x=4, y=2))
