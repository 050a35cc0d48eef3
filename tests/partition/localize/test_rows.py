"""Windows of several rows of a split dimension, which are looked up and written row by row, each where it lies.

`SHARDWRIGHT_FUZZ=N` tries N random gathers and scatters.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw

COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "24"))
B, S, D = 4, 32, 6


def array(*shape: int, dtype: object = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def partitioned(function: Callable[..., object], *arguments: object, **args: str) -> sw.Spmd:
    return sw.from_jax(function, *arguments).shard(sw.Mesh(x=4, y=2), args, results={0: args["cache"]}).partition()


def written(cache: jax.Array, new: jax.Array, at: jax.Array) -> jax.Array:
    return jax.vmap(lambda one, rows, place: lax.dynamic_update_slice(one, rows, (place, 0)))(cache, new, at)


def read(cache: jax.Array, at: jax.Array) -> jax.Array:
    return jax.vmap(lambda one, place: lax.dynamic_slice(one, (place, 0), (3, D)))(cache, at)


PLACES = [[0, 7, 30, 15], [31, -1, 100, -100], [6, 14, 22, 29]]
"""Where windows lie on one device and on two, and where they are beyond the ends."""


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_rows_are_written_into_caches_that_are_split_along_their_rows(rows: int, places: list[int]) -> None:
    arguments = array(B, S, D), array(B, rows, D), array(B, dtype=jnp.int32)
    spmd = partitioned(written, *arguments, cache="y,x,-", new="y,-,-", at="y")
    assert spmd.outcome.collectives == 0
    assert spmd.verify({"at": np.array(places, np.int32)}).ok


@pytest.mark.parametrize("places", PLACES)
def test_rows_are_read_of_caches_that_are_split_along_their_rows(places: list[int]) -> None:
    spmd = (
        sw.from_jax(read, array(B, S, D), array(B, dtype=jnp.int32)).shard(sw.Mesh(x=4), {"cache": "-,x,-"}).partition()
    )
    assert spmd.outcome.bytes_sent == B * 3 * D * 4 * 2 * 3 / 4  # what is read, reduced over four devices
    assert spmd.verify({"at": np.array(places, np.int32)}).ok


def looked_up(rng: random.Random) -> tuple[Callable[..., object], tuple[object, ...], dict[str, str], int]:
    """A random gather, or a random scatter, of windows: the function, what it takes, how that lies, and most indices."""
    rank = rng.choice([2, 3])
    shape = tuple(rng.choice([4, 8, 12, 7]) for _ in range(rank))
    sizes = tuple(rng.randint(1, size) for size in shape)
    indexed = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))
    single = tuple(dim for dim in range(rank) if sizes[dim] == 1 and rng.random() < 0.5)
    positions = tuple(rng.choice([2, 3]) for _ in range(rng.choice([0, 1, 2])))
    kept = [dim for dim in range(rank) if dim not in single]
    total = len(kept) + len(positions)
    window = tuple(sorted(rng.sample(range(total), len(kept))))
    slices = [0] * total
    for place, size in zip(window, [sizes[dim] for dim in kept], strict=True):
        slices[place] = size
    others = [place for place in range(total) if place not in window]
    for place, size in zip(others, positions, strict=True):
        slices[place] = size
    indices = array(*positions, len(indexed), dtype=jnp.int32)
    lying = {"table": ",".join(rng.sample(["x", "y", *["-"] * rank], rank)), "at": "-," * len(positions) + "-"}
    if rng.random() < 0.5:
        numbers = lax.GatherDimensionNumbers(window, single, indexed)
        mode = rng.choice([lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP])

        def gather(table: jax.Array, at: jax.Array) -> jax.Array:
            return lax.gather(table, at, numbers, sizes, mode=mode)

        return gather, (array(*shape), indices), lying, max(shape)
    dims = lax.ScatterDimensionNumbers(window, single, indexed)
    put = rng.choice([lax.scatter_add, lax.scatter_max])

    def scatter(table: jax.Array, at: jax.Array, new: jax.Array) -> jax.Array:
        made: jax.Array = put(table, at, new, dims, mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)
        return made

    return scatter, (array(*shape), indices, array(*slices)), lying | {"new": ",".join("-" * total)}, max(shape)


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_windows_come_to_what_one_device_makes_of_them(seed: int) -> None:
    rng = random.Random(seed)
    function, arguments, lying, most = looked_up(rng)
    spmd = sw.from_jax(function, *arguments).shard(sw.Mesh(x=2, y=2), lying).partition()
    shape = arguments[1].shape  # type: ignore[attr-defined]
    at = np.random.default_rng(seed).integers(-3, most + 3, shape).astype(np.int32)
    spmd.verify({"at": at}).require()
