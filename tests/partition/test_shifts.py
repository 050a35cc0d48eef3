"""Ops along whose dimensions rows move between devices: they stay split, and exactly these rows are sent."""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.ir.graph import Op
from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Computed
from shardwright.partition.localize.exchanges import exchanges_of
from tests.frontends.devices import eight_devices
from tests.partition.shifting import Maker, Moving, check_programs, program, tensor

eight_devices()

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "24"))
"""How many random programs of each op are tried."""


def partitioned(function: Any, *arrays: Any, mesh: sw.Mesh, arg: str = "x,-") -> sw.Spmd:
    """A function of JAX partitioned so that it sends least, all its arguments split alike."""
    with Session(hardware=BYTES):
        return sw.from_jax(function, *arrays).shard(mesh, args=dict.fromkeys(range(len(arrays)), arg)).partition()


def sent(function: Any, *arrays: Any, mesh: sw.Mesh, arg: str = "x,-", collectives: int | None = None) -> float:
    """Bytes that each device sends in a function of JAX, which computes what it does unsharded."""
    spmd = partitioned(function, *arrays, mesh=mesh, arg=arg)
    assert not spmd.notes
    (actual,) = jax.tree.leaves(spmd.compile()(*arrays))
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(function(*arrays)))
    total = spmd.traffic.total
    assert collectives is None or total.static == collectives
    return float(total.static_bytes)


def numbers(*shape: int) -> Any:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def ops_with_layouts(spmd: sw.Spmd) -> list[tuple[Op, tuple[sw.TensorSharding, ...]]]:
    """The ops of an explicit program, and how the operands of each lie."""
    graph = spmd.explicit
    return [(op, tuple(filter(None, map(graph.shardings.__getitem__, op.operands)))) for op in graph.walk()]


def exchanging(spmd: sw.Spmd) -> int:
    """How many ops there are inside which devices exchange something."""
    return sum(bool(exchanges_of(op.signature, layouts)) for op, layouts in ops_with_layouts(spmd))


# --- random programs


def random_slice(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A slice of as many shards; strides often divide these."""
    starts, limits, strides = [], [], []
    for size, count in zip(shape, counts, strict=True):
        stride = rng.choice([1, 1, 2, 3, rng.randint(1, size)])
        most = -(-size // stride)
        taken = rng.choice(range(count, most + 1, count)) if most >= count else size
        stride = 1 if taken == size else stride
        start = rng.randint(0, size - (taken - 1) * stride - 1)
        starts.append(start)
        strides.append(stride)
        limits.append(rng.randint(start + (taken - 1) * stride + 1, min(size, start + taken * stride)))
    bounds = list(zip(starts, limits, strides, strict=True))
    result = tuple(-(-(limit - start) // stride) for start, limit, stride in bounds)
    ranges = ", ".join(":".join(map(str, one)) for one in bounds)

    def write(names: Any, dtype: str) -> str:
        return f"stablehlo.slice {names[0]} [{ranges}] : ({tensor(shape, dtype)}) -> {tensor(result, dtype)}"

    return Moving((shape,), result, write)


MAKERS: dict[str, Maker] = {"slice": random_slice}


@pytest.mark.parametrize("name", MAKERS)
def test_sharded_is_unsharded(name: str) -> None:
    check_programs(MAKERS[name], range(FUZZ))


# --- slices

ROW = 8 * 4
"""Bytes of a row."""

SLICES = [
    ("every second row", slice(None, None, 2), 0, 0),
    ("every fourth from the second on", slice(1, None, 4), 0, 0),
    ("a few rows less at the front", slice(4, None), 3 * ROW, 1),
    ("a row at each end, of different devices", slice(2, -2), 1 * ROW, 1),
    ("a row more at the end", slice(1, -3), 2 * ROW, 1),
    ("the first three of four shards", slice(None, 48), 12 * ROW, 1),
    ("half in the middle", slice(16, 48), 8 * ROW, 1),
    ("the first half", slice(None, 32), 16 * ROW, 2),
    ("every second of the middle", slice(8, 40, 2), 4 * ROW, 1),
    ("every third", slice(3, 51, 3), 10 * ROW, 2),
]


@pytest.mark.parametrize(
    ("rows", "expected", "collectives"), [one[1:] for one in SLICES], ids=[one[0] for one in SLICES]
)
def test_a_slice_sends_the_rows_that_cross(rows: slice, expected: int, collectives: int) -> None:
    assert sent(lambda x: x[rows], numbers(64, 8), mesh=sw.Mesh(x=4), collectives=collectives) == expected


def test_unsplit_dimensions_are_cut_before_rows_are_sent() -> None:
    assert sent(lambda x: x[4:, 2:4], numbers(64, 8), mesh=sw.Mesh(x=4)) == 3 * 2 * 4


def test_several_dimensions_are_cut_one_after_the_other() -> None:
    """What is left of a tensor that shrinks along one is sent along the other."""
    x, mesh = numbers(16, 32), sw.Mesh(x=2, y=4)
    assert sent(lambda x: x[:8, 4:], x, mesh=mesh, arg="x,y") == (4 * 8 + 4 * 3) * 4
    assert sent(lambda x: x[2:, 8:24], x, mesh=mesh, arg="x,y") == (8 * 4 + 1 * 4) * 4


def test_parts_that_do_not_divide_are_gathered_and_told_of() -> None:
    spmd = partitioned(lambda x: x[1:], numbers(64, 8), mesh=sw.Mesh(x=4))
    assert any("operand 0 is gathered along dimension 0" in note.message for note in spmd.notes)


def test_a_small_tensor_is_gathered_where_starting_collectives_costs_more() -> None:
    function, x = lambda x: x[3:51:3], numbers(64, 8)
    spmd = sw.from_jax(function, x).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    assert (exchanging(spmd), spmd.traffic.total.static) == (0, 1)
    large = numbers(4096, 256)
    assert exchanging(sw.from_jax(lambda x: x[3:3075:3], large).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()) == 1


# --- whatever moves


def test_what_is_sent_inside_is_priced_as_written() -> None:
    for seed in range(12):
        text, _ = program(MAKERS["slice"], seed, count=1)
        with Session(hardware=BYTES):
            spmd = sw.load(text).plan().partition()
        inside = [
            exchange for op, layouts in ops_with_layouts(spmd) for exchange in exchanges_of(op.signature, layouts)
        ]
        assert spmd.traffic.total.static == len(inside)


def test_a_loop_and_its_body_exchange_as_well() -> None:
    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, x: jax.lax.concatenate([x[4:], x[:4]], 0) * 2, x)

    x, mesh = numbers(64, 8), sw.Mesh(x=4)
    spmd = partitioned(function, x, mesh=mesh)
    (actual,) = jax.tree.leaves(spmd.compile()(x))
    np.testing.assert_array_equal(actual, function(x))


@pytest.mark.parametrize("mesh", [sw.Mesh(x=4), sw.Mesh(x=2, y=2)])
def test_what_was_written_is_read_again_as_the_same(mesh: sw.Mesh) -> None:
    """But for constants, of which import has one where several are alike."""
    x = numbers(64, 8)
    spmd = partitioned(lambda x: x[4:], x, mesh=mesh, arg="x,-" if len(mesh.axes) == 1 else "y+x,-")
    again = sw.load(spmd.module("explicit")).plan().partition()
    third = sw.load(again.module("explicit")).plan().partition()
    assert third.module("explicit") == again.module("explicit")
    assert third.module("local") == again.module("local")
    assert again.traffic.total == spmd.traffic.total
    (actual,) = jax.tree.leaves(again.compile()(x))
    np.testing.assert_array_equal(actual, x[4:])


def test_a_partial_sum_passes() -> None:
    """Devices shift what they have of it; it is reduced when it is less."""

    def function(x: Any, y: Any) -> Any:
        return (x @ y)[:4]

    mesh, x, y = sw.Mesh(x=2, y=4), numbers(64, 512) % 7, numbers(512, 16) % 5
    with Session(hardware=BYTES):
        spmd = sw.from_jax(function, x, y).shard(mesh, args={0: "x,y", 1: "y,-"}).partition()
    (op,) = [op for op in spmd.explicit.walk() if op.name == "stablehlo.slice"]
    assert "partial=sum{y}" in repr(spmd.explicit.shardings[op.results[0]])
    (actual,) = jax.tree.leaves(spmd.compile()(x, y))
    np.testing.assert_allclose(actual, function(x, y), rtol=1e-5)


def test_devices_in_an_order_of_their_own() -> None:
    text = """sdy.mesh @m = <["x"=2, "y"=2], device_ids=[2, 0, 3, 1]>
    func.func @main(%a: tensor<16x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"y", "x"}, {}]>}) -> tensor<12x3xf32> {
      %r = stablehlo.slice %a [3:15, 0:3] : (tensor<16x3xf32>) -> tensor<12x3xf32>
      return %r : tensor<12x3xf32>
    }"""
    with Session(hardware=BYTES):
        spmd = sw.load(text).plan().partition()
    assert exchanging(spmd) == 1
    for one in (spmd, sw.load(spmd.module("explicit")).plan().partition()):
        (actual,) = jax.tree.leaves(one.compile()(numbers(16, 3)))
        np.testing.assert_array_equal(actual, numbers(16, 3)[3:15])


def test_values_without_elements() -> None:
    assert sent(lambda x: x[4:], numbers(64, 0), mesh=sw.Mesh(x=4)) == 0
    assert sent(lambda x: x[4:4], numbers(64, 8), mesh=sw.Mesh(x=4)) == 0


def test_decisions_do_not_grow_with_the_number_of_devices() -> None:
    text = """sdy.mesh @m = <["x"=1048576]>
    func.func @main(%a: tensor<4194304x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<3145728x3xf32> {
      %r = stablehlo.slice %a [7:3145735, 0:3] : (tensor<4194304x3xf32>) -> tensor<3145728x3xf32>
      return %r : tensor<3145728x3xf32>
    }"""
    graph = sw.load(text).plan().graph
    (decision,) = [one for one in decide(graph).ops if isinstance(one, Computed) and one.results]
    assert decision.operands == decision.results
