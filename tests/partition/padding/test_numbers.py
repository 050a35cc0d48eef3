"""Programs with uneven dimensions, through all stages and on virtual devices, against the program for one device."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.extents import filled_shape
from shardwright.notation import modules
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import Case, assert_equal, make_case

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))

MESHES = (sw.Mesh(x=4), sw.Mesh(x=3), sw.Mesh(x=2, y=4), sw.Mesh(x=3, y=2), sw.Mesh(x=5), sw.Mesh(x=2, y=2, z=2))


class Kind(NamedTuple):
    """A function of arrays of some shapes; equal letters are equal sizes."""

    function: Callable[..., Any]
    shapes: tuple[str, ...]


def _logarithms(a: Any, b: Any) -> Any:
    """What padding becomes on the way is -inf, and NaN: it must be seen nowhere."""
    wild = jnp.log(jnp.abs(a)) + jnp.abs(a / b)
    return wild.sum(0), wild.max(1), wild.min(), wild.prod(0), wild.mean(1), wild.T @ wild


def _no_numbers(a: Any, b: Any) -> Any:
    """Where the elements themselves are NaN and infinite."""
    wild = jnp.log(a) / jnp.maximum(b, 0)
    return wild.sum(0), wild.prod(1), wild.T @ b, jnp.where(jnp.isnan(wild), 0, wild).max(0)


def _logic(a: Any) -> Any:
    bits = (a * 8).astype("int32")
    return (a > 0).all(0), (a > 0).any(1), jnp.bitwise_or.reduce(bits, axis=0), jnp.bitwise_xor.reduce(bits, axis=1)


def _loop(a: Any, b: Any) -> Any:
    def body(_: Any, carried: Any) -> Any:
        one, total = carried
        one = jnp.tanh(one @ b) / (1 + jnp.abs(one).max(0))
        return one, total + one.sum(0)

    return jax.lax.fori_loop(0, 3, body, (a, jnp.zeros(a.shape[1])))


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqd,bkd->bqk", q, k)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v)


def _branches(a: Any, b: Any) -> Any:
    return jax.lax.cond(a[0, 0] > 0.5, lambda: (a @ b, a.sum(0)), lambda: (a * 2, a.max(0)))


def _norms(a: Any, scale: Any) -> Any:
    centred = a - a.mean(-1, keepdims=True)
    out = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale
    return out, jax.nn.logsumexp(out, axis=0), out.argmax(0), out.argmin(1)


def _gradient(w: Any, v: Any, x: Any) -> Any:
    def loss(w: Any, v: Any) -> Any:
        return jnp.square(jax.nn.relu(x @ w) @ v).mean()

    return jax.grad(loss, argnums=(0, 1))(w, v)


def _picked(a: Any, i: Any) -> Any:
    index = (i * 5).astype("int32")
    return jnp.take(a, index, axis=0), jnp.take_along_axis(a, a.argsort(0), axis=0), jnp.sort(a, axis=1)


def _embedding(table: Any, i: Any, w: Any) -> Any:
    """Looked up, and its gradient scattered, at places that may be beyond the table."""
    index = (jnp.abs(i) * table.shape[0]).astype("int32") - 1

    def clamped(table: Any) -> Any:
        return table.at[index].get(mode="clip") @ w

    def loss(table: Any) -> Any:
        return jnp.square(clamped(table)).sum()

    dropped = table.at[index].add(jnp.ones((index.shape[0], table.shape[1])), mode="drop")
    return clamped(table), dropped, jax.grad(loss)(table), table.at[index].max(0.5)


def _images(image: Any, kernel: Any) -> Any:
    def out(image: Any, kernel: Any) -> Any:
        return jax.lax.conv(image, kernel, (1, 1), "SAME")

    def loss(image: Any, kernel: Any) -> Any:
        return jnp.square(out(image, kernel)).sum()

    return out(1 / image, kernel), jax.grad(loss, argnums=(0, 1))(image, kernel)


def _pooled(image: Any, weights: Any) -> Any:
    """Windows along dimensions that do not divide, of infinite elements and of no numbers too."""

    def pool(image: Any, computation: Any, start: float, size: int, stride: int, padding: Any) -> Any:
        of = (1, min(size, image.shape[1]), min(size, image.shape[2]), 1)
        return jax.lax.reduce_window(image, start, computation, of, (1, stride, stride, 1), padding)

    def best(image: Any) -> Any:
        return pool(image, jax.lax.max, -jnp.inf, 2, 2, "VALID")

    def product(a: Any, b: Any) -> Any:
        return a * b + 0 * a

    # no NaN: of a maximum with one XLA:CPU makes this or that
    wild = jnp.where(image > 0.9, jnp.inf, jnp.where(image < -0.9, -jnp.inf, image))
    found = (
        best(wild),
        pool(wild, jax.lax.max, -jnp.inf, 3, 2, "SAME"),
        pool(1 / image, jax.lax.min, jnp.inf, 2, 3, "SAME"),
    )
    ahead = ((0, 0), (2, 0), (0, 1), (0, 0))
    sums = pool(wild, jax.lax.add, 0.0, 3, 1, "SAME"), pool(image, jax.lax.add, 1.0, 2, 1, ahead)
    scanned = (
        jnp.cumsum(image, 1),
        jax.lax.cummax(jnp.log(jnp.abs(image)), 2, reverse=True),
        pool(image, product, 1.0, 2, 2, "VALID"),
    )
    gradients = jax.vjp(best, image)[1](best(wild) * weights[0]), jax.vjp(best, wild * 0)[1](best(image))
    return *found, *sums, *scanned, *gradients


def _slid(image: Any, kernel: Any) -> Any:
    """Convolutions in steps, with holes, beyond the edges and within them, and their gradients."""

    def slid(image: Any, kernel: Any, padding: Any = "SAME", **options: Any) -> Any:
        options = {"window_strides": (1, 1), "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **options}
        return jax.lax.conv_general_dilated(image, kernel, padding=padding, **options)

    def strided(image: Any, kernel: Any) -> Any:
        return slid(image, kernel, window_strides=(2, 3))

    wild = jnp.where(image > 0.9, jnp.inf, jnp.log(image))
    out = strided(image, kernel)
    edges = ((1, -1), (0, 2))
    return (
        strided(wild, kernel),
        *jax.vjp(strided, image, kernel)[1](out),
        slid(wild, kernel, edges),
        slid(image, kernel, edges, rhs_dilation=(2, 2)),
        slid(image, kernel, ((2, 1), (1, 1)), lhs_dilation=(2, 3)),
    )


def _kernels(image: Any, kernel: Any, out: Any) -> Any:
    """Gradients of kernels: infinite rows meet no more than the rows of the gradient that are there."""
    kernel = kernel[:3, :2]
    last, end = image.at[:, -1].set(jnp.inf), image.at[:, :, -1].set(jnp.inf)

    def gradient(kernel: Any, image: Any, **options: Any) -> Any:
        options = {"window_strides": (1, 1), "padding": "SAME", **options}

        def convolved(kernel: Any) -> Any:
            return jax.lax.conv_general_dilated(image, kernel, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)

        made, pull = jax.vjp(convolved, kernel)
        rows = out[: made.shape[0], : made.shape[1], : made.shape[2], : made.shape[3]]
        edges = [(0, size - had) for size, had in zip(made.shape, rows.shape, strict=True)]
        return pull(jnp.pad(jnp.tanh(rows), edges, constant_values=0.5))[0]

    each = kernel[:, :, :1, :1] * jnp.ones((1, 1, 1, image.shape[3]))
    return (
        gradient(kernel, last),
        gradient(kernel, end, padding=((2, -1), (1, 0))),
        gradient(kernel, end, window_strides=(2, 3)),
        gradient(kernel, last, rhs_dilation=(2, 1)),
        gradient(each, image, feature_group_count=image.shape[3]),
        gradient(kernel, image[:, ::2], padding="VALID" if image.shape[1] > 5 and image.shape[2] > 1 else "SAME"),
    )


def _lines(a: Any, b: Any) -> Any:
    """Along one dimension what only goes through the other."""
    positive = jnp.einsum("bij,bkj->bik", a, a) + 9 * jnp.eye(a.shape[1])
    return jnp.sort(a, 1), jax.lax.top_k(b, 2), jnp.cumsum(b, 1), jnp.linalg.cholesky(positive), jnp.fft.fft(b).real


def _factored(a: Any, b: Any) -> Any:
    """Decompositions in a batch: calls whose rules JAX gives."""
    symmetric = jnp.einsum("bij,bkj->bik", a, a) + 9 * jnp.eye(a.shape[1])
    wild = 1 / jnp.maximum(b, 0)
    factors = jnp.linalg.cholesky(symmetric), *jnp.linalg.qr(symmetric), jnp.linalg.eigvalsh(symmetric)
    solved = jnp.linalg.inv(symmetric) @ b[..., None], jnp.linalg.slogdet(symmetric)[1] + wild.sum(1)
    return *factors, *solved, jnp.linalg.svd(a, compute_uv=False).sum(0)


def _parts(a: Any, b: Any) -> Any:
    joined = jnp.concatenate([a, b], axis=1)
    return joined[:, 1:], jnp.pad(a, ((0, 0), (1, 2))), joined[::-1], jnp.cumsum(a, axis=0), a.reshape(-1), a[..., None]


def _reshaped(a: Any, b: Any) -> Any:
    """Dimensions merged and split, alike and not, and again in a loop; what padding becomes is no number."""
    i, j, h = a.shape
    wild = jnp.log(jnp.abs(a)) * a
    flat = wild.reshape(i * j, h)
    line = wild.reshape(-1)

    def body(_: Any, carried: Any) -> Any:
        rows = jnp.tanh(carried.reshape(i, j * h)).reshape(i * j, h)
        return rows / (1 + jnp.abs(rows).max(0))

    split = (flat @ b).reshape(i, j, -1)
    lines = line[::-1], jnp.sort(line), line.reshape(h, j, i).sum(2), line.reshape(i * h, j).max(1)
    both = wild.reshape(i, j * h).T @ wild.reshape(i, j * h), wild.transpose(1, 0, 2).reshape(j * i, h)
    return flat.sum(0), flat.max(0), line.sum(), split.min(0), *lines, *both, jax.lax.fori_loop(0, 2, body, flat)


def _moved(a: Any, b: Any) -> Any:
    """Rows taken in steps, others put between, and what leaves at one end and comes in at the other."""
    between = jax.lax.pad(1 / a, 2.0, ((1, 2, 1), (-1, 0, 2)))
    rolled = jnp.roll(jnp.roll(a, 1, 0), -2, 1), jnp.roll(b * 2, 3, (0, 1))
    return a[::2], b[1::3, ::2] + 1, between, jax.lax.pad(b, 0.0, ((0, 3, 2), (2, -1, 0))), *rolled


def _grouped(image: Any, kernel: Any) -> Any:
    """A kernel for each feature, and features in two groups."""

    def convolved(image: Any, kernel: Any, groups: int) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            image, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    each = kernel[:, :, None]
    pairs = jnp.concatenate([image, image], 3)
    both = jnp.concatenate([each, each], 3)
    count = image.shape[3]
    return convolved(image, each, count), convolved(pairs, both, 2 * count), convolved(pairs, both + 1, 2 * count).sum()


def _at_run_time(a: Any, b: Any, i: Any) -> Any:
    """Rows taken, and put, at places that may lie outside, in a loop as well."""
    place = (i * 20).astype("int32")
    rows = min(3, a.shape[0])
    taken = jax.lax.dynamic_slice_in_dim(1 / a, place[0], rows, 0)
    corner = jax.lax.dynamic_slice(b, (place[1], place[0] - 3), (1, min(2, b.shape[1])))
    put = jax.lax.dynamic_update_slice(jnp.exp(a), b[:rows, :1], (place[0], place[1]))
    totals = jax.lax.scan(lambda c, row: (c + row, c * row), b[0], b)
    return taken, corner, put, *totals


KINDS = {
    "elements": Kind(lambda a, b: (jnp.tanh(a) * b + a, jnp.where(a > b, a, b).T), ("ij", "ij")),
    "product": Kind(lambda a, b: a @ b, ("ik", "kj")),
    "products in a row": Kind(lambda a, b, c: jnp.exp(a @ b) @ c, ("ik", "kj", "jl")),
    "batched product": Kind(lambda a, b: jnp.einsum("bik,bkj->bij", 1 / a, b), ("bik", "bkj")),
    "twice contracted": Kind(lambda a, b: jnp.einsum("bik,bkj->ij", a, b), ("bik", "bkj")),
    "logarithms": Kind(_logarithms, ("ij", "ij")),
    "no numbers": Kind(_no_numbers, ("ij", "ij")),
    "logic": Kind(_logic, ("ij",)),
    "loop": Kind(_loop, ("ij", "jj")),
    "attention": Kind(_attention, ("bqd", "bkd", "bke")),
    "branches": Kind(_branches, ("ij", "jj")),
    "norms": Kind(_norms, ("ij", "j")),
    "gradient": Kind(_gradient, ("kj", "jl", "ik")),
    "picked": Kind(_picked, ("ij", "k")),
    "embedding": Kind(_embedding, ("vd", "t", "de")),
    "images": Kind(_images, ("bihw", "oihw")),
    "pooled": Kind(_pooled, ("bijh", "h")),
    "slid": Kind(_slid, ("bijh", "vwho")),
    "kernels": Kind(_kernels, ("bijh", "vwho", "bijo")),
    "factored": Kind(_factored, ("bij", "bi")),
    "lines": Kind(_lines, ("bij", "bi")),
    "parts": Kind(_parts, ("ij", "ik")),
    "reshaped": Kind(_reshaped, ("ijh", "hk")),
    "moved": Kind(_moved, ("ij", "ij")),
    "at run time": Kind(_at_run_time, ("ij", "ij", "i")),
    "grouped": Kind(_grouped, ("bijh", "qvh")),
}


def annotated(kind: Kind, chance: random.Random) -> str:
    """A program of random sizes whose arguments, and some results, are split at random, mostly unevenly."""
    mesh = chance.choice(MESHES)
    sizes = {letter: chance.choice((2, 3, 5, 6, 7, 9, 10, 11, 13)) for letter in "bdehijkloqtvw"}
    shapes = [tuple(sizes[letter] for letter in letters) for letters in kind.shapes]
    program = sw.from_jax(kind.function, *[jax.ShapeDtypeStruct(shape, "float32") for shape in shapes])
    args = [random_sharding(mesh, len(shape), chance) for shape in shapes]
    graph = program.shard(mesh, args=args).annotated
    results = [
        random_sharding(mesh, type.rank, chance) if chance.random() < 0.5 else None for type in graph.results.values()
    ]
    return modules.located_text(replace(graph, main=replace(graph.main, result_shardings=results)))


def random_sharding(mesh: sw.Mesh, rank: int, chance: random.Random) -> sw.TensorSharding:
    dims: list[list[str]] = [[] for _ in range(rank)]
    for name in chance.sample(list(mesh.sizes), len(mesh.sizes)):
        if dims and chance.random() < 0.8:
            chance.choice(dims).append(name)
    return sw.TensorSharding.of(mesh, dims)


def _poisoned(array: Any, sharding: sw.TensorSharding) -> Any:
    """An array of the shards of another, which hold what is no number behind its end."""
    filled = np.full(filled_shape(sharding, array.shape), np.nan, array.dtype)
    filled[tuple(map(slice, array.shape))] = array
    return filled


def run(seeds: range) -> None:
    """Programs of each kind, and the same with shards of arguments that hold no numbers behind the end."""
    cases: dict[str, Case] = {}
    for name, kind in KINDS.items():
        for seed in seeds:
            cases[f"{name} {seed}"] = make_case(annotated(kind, random.Random(f"{SEED} {name} {seed}")), seed)
    jobs = []
    for case in cases.values():
        inputs = tuple(map(_poisoned, case.local.inputs, case.local.in_shardings))
        jobs += [case.unsharded, case.local, replace(case.local, inputs=inputs)]
    done = try_jobs(jobs, timeout=600)
    for number, (name, case) in enumerate(cases.items()):
        unsharded, local, poisoned = done[3 * number : 3 * number + 3]
        assert_equal(name, case, unsharded, local)
        assert_equal(f"{name}, poisoned", case, unsharded, poisoned)
    taken = [pair for case in cases.values() for pair in zip(case.local.in_shardings, case.local.inputs, strict=True)]
    given = [
        pair for case in cases.values() for pair in zip(case.local.out_shardings, case.local.out_types, strict=True)
    ]
    assert sum(not sharding.divides(array.shape) for sharding, array in taken) > len(taken) // 2
    assert sum(not sharding.divides(type.dims) for sharding, type in given) > len(given) // 4


def test_uneven_programs_are_the_unsharded_ones_whatever_stands_behind_the_end() -> None:
    run(range(1))


@pytest.mark.long
@pytest.mark.parametrize("block", range(8))
def test_uneven_programs_are_the_unsharded_ones_long(block: int) -> None:
    run(range(4 * block + 1, 4 * block + 5))
