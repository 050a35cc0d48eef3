"""What ops move through memory: how much of it counts, what it takes, and that it is shared out where that pays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
from shardwright.cost.hardware import hardware
from shardwright.cost.price import Cost, price
from shardwright.ir.graph import Op
from shardwright.partition.splits import splits_of

ROWS = jax.ShapeDtypeStruct((64, 32), jnp.float32)
BYTES = 64 * 32 * 4


def _moved(function: object, *arguments: jax.ShapeDtypeStruct) -> dict[str, float]:
    """Bytes that each kind of op of a program moves, computed whole."""

    def of(op: Op) -> float:
        splits = splits_of(op.signature)
        return 0.0 if splits is None else splits.work([1] * len(splits.rule.sizes), hardware("h100")).bytes_moved

    graph = sw.from_jax(function, *arguments).graph
    return {op.name.removeprefix("stablehlo."): of(op) for op in graph.walk()}


def test_ops_that_are_no_products_move_a_quarter_of_their_largest_tensor() -> None:
    moved = _moved(lambda x: (jnp.sort(jnp.exp(x), -1) @ x.T, x.sum(-1) + 1.0), ROWS)
    assert moved["exponential"] == moved["sort"] == moved["reduce"] == BYTES / 4
    assert moved["add"] == 64 * 4 / 4
    assert moved["constant"] == moved["broadcast_in_dim"] == 0


def test_products_that_read_more_than_they_compute_take_what_memory_takes() -> None:
    box, rows = hardware("h100"), jnp.ones((64, 32))
    op = next(op for op in sw.from_jax(lambda x: x @ x.T, rows).graph.walk() if op.name == "stablehlo.dot_general")
    splits = splits_of(op.signature)
    assert splits is not None
    made = splits.work([1] * len(splits.rule.sizes), box)
    assert made.bytes_moved == 0
    assert price(made, box) == pytest.approx((2 * BYTES + 64 * 64 * 4) / 3.35e12)


@pytest.mark.parametrize(("devices", "parts"), [(2, 1), (8, 8)])
def test_a_part_of_a_weight_that_is_copied_first_must_be_small(devices: int, parts: int) -> None:
    """Kernels of products for GPUs read tensors that lie as a whole: half a weight is read twice and written, then."""
    x, weight = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((8, 8192), (8192, 65536)))
    with sw.Session(hardware=hardware("h100")):
        plan = sw.from_jax(lambda x, w: x @ w, x, weight).shard(sw.Mesh(x=devices), {0: sw.P("x"), 1: sw.P()})
        spmd = plan.partition(effort="default")
    assert f"tensor<8192x{65536 // parts}xbf16>" in spmd.module("local")
    assert spmd.searched is not None
    assert parts == 1 or spmd.searched.seconds < 0.5 * spmd.searched.seconds_before


def test_a_step_of_decoding_computes_the_same_split_by_its_weights() -> None:
    """All of its weights are everywhere, and its batch is split: with little that is computed they take the time."""
    shapes = (8, 64), (64, 256), (256, 64), (64, 256), (256, 64)
    x, *weights = (jnp.arange(math.prod(one), dtype=jnp.float32).reshape(one) / math.prod(one) for one in shapes)

    def step(x: Any, *weights: Any) -> Any:
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            x = x + jnp.tanh(x @ up) @ down
        return x

    slow = replace(hardware("h100"), memory_bytes_per_second=1e8, copied_bytes_per_second=1e9)
    with sw.Session(hardware=slow):
        plan = sw.from_jax(step, x, *weights).shard(sw.Mesh(x=8), {0: sw.P("x"), **{n: sw.P() for n in range(1, 5)}})
        for optimize in ("off", "all"):
            spmd = plan.partition(effort="default", optimize=optimize)
            assert "tensor<64x32xf32>" in spmd.module("local")
            assert spmd.searched is not None
            assert spmd.searched.seconds < 0.5 * spmd.searched.seconds_before
            spmd.verify(inputs=[x, *weights]).require()


def test_a_product_by_a_tall_weight_is_split_though_little_is_computed() -> None:
    """A step of decoding of which all devices have the weight: each reads a part of it, rather than all of it."""
    x, weight = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((8, 8192), (8192, 65536)))
    for speed, parts in ((hardware("h100").memory_bytes_per_second, 8), (None, 1)):
        with sw.Session(hardware=replace(hardware("h100"), memory_bytes_per_second=speed)):
            plan = sw.from_jax(lambda x, w: x @ w, x, weight).shard(sw.Mesh(x=8), {0: sw.P("x"), 1: sw.P()})
            spmd = plan.partition(effort="default")
        assert f"tensor<8192x{65536 // parts}xbf16>" in spmd.module("local")


def test_what_is_taken_or_written_in_place_alone_is_moved() -> None:
    row = jax.ShapeDtypeStruct((1, 32), jnp.float32)
    moved = _moved(lambda x, y: (jax.lax.dynamic_update_slice(x, y, (3, 0)), x[5:6] * y), ROWS, row)
    assert moved["slice"] == moved["multiply"] == 32 * 4 / 4
    assert moved["dynamic_update_slice"] == 32 * 4 / 4


def test_it_takes_time_where_the_speed_of_memory_is_known() -> None:
    box = hardware("h100")
    assert price(Cost(bytes_moved=3.35e12), box) == pytest.approx(1.0)
    assert price(Cost(bytes_moved=3.35e12), replace(box, memory_bytes_per_second=None)) == 0.0


@pytest.mark.parametrize("is_free", [False, True])
def test_what_all_devices_would_read_is_read_in_parts(is_free: bool) -> None:
    """A row's sum of what lies whole on each device: gathered for the start of a collective, or summed by all alike."""
    large = jax.ShapeDtypeStruct((1024, 65536), jnp.float32)
    there = replace(hardware("h100"), memory_bytes_per_second=None) if is_free else hardware("h100")
    with sw.Session(hardware=there):
        plan = sw.from_jax(lambda x: jnp.exp(x).sum(-1), large).shard(sw.Mesh(x=8), {0: sw.P()})
        explicit = plan.partition(effort="default").module("explicit")
    assert ("sdy.all_gather" in explicit) != is_free


TABLE, WORDS = jax.ShapeDtypeStruct((1000, 32), jnp.float32), jax.ShapeDtypeStruct((64,), jnp.int32)


def _looked_up(table: Any, words: Any, updates: Any) -> Any:
    return table[words], table.at[words].add(updates)


def test_looking_rows_up_moves_these_and_not_the_table() -> None:
    moved = _moved(_looked_up, TABLE, WORDS, ROWS)
    assert moved["gather"] == moved["scatter"] == BYTES / 4


@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_all_of_what_is_looked_up_is_gone_through_wherever_rows_lie(name: str) -> None:
    graph = sw.from_jax(_looked_up, TABLE, WORDS, ROWS).graph
    (op,) = (op for op in graph.walk() if op.name == f"stablehlo.{name}")
    splits = splits_of(op.signature)
    assert splits is not None
    work = {
        size: splits.work([8 if one == size else 1 for one in splits.rule.sizes], hardware("h100")).multiply_adds
        for size in splits.rule.sizes
        if size > 1
    }
    assert work == {1000: 64 * 32, 32: 64 * 4, 64: 8 * 32}


@pytest.mark.parametrize("effort", ["fast", "default"])
@pytest.mark.parametrize(("words", "moves"), [(1 << 18, True), (1 << 10, False)])
def test_a_table_is_brought_to_what_is_looked_up_where_that_is_more(effort: Any, words: int, moves: bool) -> None:
    """Of a table of 100,000 rows in eight parts, for words in eight parts: whole, or by columns of which each device looks
    all words up; or, for few words, where the rows are, in parts of a sum.
    """
    table, chosen = jax.ShapeDtypeStruct((100_000, 128), jnp.float32), jax.ShapeDtypeStruct((words,), jnp.int32)
    with sw.Session(hardware=hardware("h100")):
        plan = sw.from_jax(lambda t, w: t[w] * 2, table, chosen).shard(sw.Mesh(x=8), {0: "x,-", 1: "x"})
        spmd = plan.partition(effort=effort)
    assert ("reduce_scatter" in spmd.traffic.kinds) != moves
    by_rows = 7 / 8 * words * (128 * 4 + 4)
    assert spmd.outcome is not None
    assert spmd.outcome.bytes_sent <= by_rows * ({"fast": 0.4, "default": 0.2}[effort] if moves else 1)
