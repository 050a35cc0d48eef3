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
from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Computed
from tests.frontends.devices import eight_devices
from tests.partition.shifting import Maker, Moving, check_prices, check_programs, exchanging, tensor

eight_devices()

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "8"))
"""How many random programs of each op are tried."""


def partitioned(function: Any, *arrays: Any, mesh: sw.Mesh, arg: str = "x,-") -> sw.Spmd:
    """A function of JAX partitioned so that it sends least, all its arguments split alike."""
    with Session(hardware=BYTES):
        return (
            sw.from_jax(function, *arrays)
            .shard(mesh, args=dict.fromkeys(range(len(arrays)), arg))
            .partition(effort="fast")
        )


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

    def write(name: str, names: Any, dtype: str) -> str:
        return f"{name} = stablehlo.slice {names[0]} [{ranges}] : ({tensor(shape, dtype)}) -> {tensor(result, dtype)}"

    return Moving((shape,), result, write)


def random_pad(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A pad to as many shards, in front, behind and in between; also less than nothing."""
    low, high, interior, result = [], [], [], []
    for size, count in zip(shape, counts, strict=True):
        between = rng.choice([0, 0, 0, 1, 2, 3])
        wide = size + (size - 1) * between
        padded = count * rng.randint(1, 2 + wide // count)
        front = rng.choice([0, rng.randint(1 - wide, padded - 1), rng.randint(-2, 2)])
        low.append(front)
        high.append(padded - wide - front)
        interior.append(between)
        result.append(padded)

    def write(name: str, names: Any, dtype: str) -> str:
        fill = {"i1": "true", "complex<f32>": "(7.0, 8.0)"}.get(dtype, "7" if dtype in ("i32", "ui8") else "7.0")
        types = f"({tensor(shape, dtype)}, tensor<{dtype}>) -> {tensor(result, dtype)}"
        return f"""{name}_fill = stablehlo.constant dense<{fill}> : tensor<{dtype}>
      {name} = stablehlo.pad {names[0]}, {name}_fill, low = {low}, high = {high}, interior = {interior} : {types}"""

    return Moving((shape,), tuple(result), write)


def random_reverse(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A reversal of some dimensions."""
    dims = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))

    def write(name: str, names: Any, dtype: str) -> str:
        return f"{name} = stablehlo.reverse {names[0]}, dims = {dims} : {tensor(shape, dtype)}"

    return Moving((shape,), shape, write)


def random_concatenate(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """Up to four tensors along some dimension, some of one size, some of none."""
    dim = rng.randrange(len(shape))
    sizes = [shape[dim]] * rng.randint(1, 4)
    if rng.random() < 0.5:
        sizes = [counts[dim] * rng.choice([0, 1, 1, 2, 3]) for _ in sizes]
    shapes = tuple((*shape[:dim], size, *shape[dim + 1 :]) for size in sizes)
    result = (*shape[:dim], sum(sizes), *shape[dim + 1 :])

    def write(name: str, names: Any, dtype: str) -> str:
        types = ", ".join(tensor(one, dtype) for one in shapes)
        joined = f"({types}) -> {tensor(result, dtype)}"
        return f"{name} = stablehlo.concatenate {', '.join(names)}, dim = {dim} : {joined}"

    return Moving(shapes, result, write)


def random_roll(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """Two slices of a tensor, joined the other way round."""
    dim = rng.randrange(len(shape))
    size = shape[dim]
    start = rng.randint(1, size - 1) if size > 1 else 0
    ends = [(start, size), (0, start)]
    parts = [(*shape[:dim], last - first, *shape[dim + 1 :]) for first, last in ends]

    def ranges(first: int, last: int) -> str:
        return ", ".join(f"{first}:{last}" if number == dim else f"0:{one}" for number, one in enumerate(shape))

    def write(name: str, names: Any, dtype: str) -> str:
        lines = [
            f"{name}_{number} = stablehlo.slice {names[0]} [{ranges(*end)}] : ({tensor(shape, dtype)}) -> {tensor(part, dtype)}"
            for number, (end, part) in enumerate(zip(ends, parts, strict=True))
        ]
        types = f"({tensor(parts[0], dtype)}, {tensor(parts[1], dtype)}) -> {tensor(shape, dtype)}"
        return "\n      ".join([*lines, f"{name} = stablehlo.concatenate {name}_0, {name}_1, dim = {dim} : {types}"])

    return Moving((shape,), shape, write)


MAKERS: dict[str, Maker] = {
    "slice": random_slice,
    "pad": random_pad,
    "reverse": random_reverse,
    "concatenate": random_concatenate,
    "roll": random_roll,
}


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
    ("every third", slice(3, 51, 3), 9 * ROW, 1),
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


def test_parts_that_do_not_divide_are_padded_and_stay_split() -> None:
    """What is padded is one row more: it is sent with the row that crosses, or stands behind it."""
    x, mesh = numbers(63, 8), sw.Mesh(x=4)
    assert sent(lambda x: x[1:], numbers(64, 8), mesh=mesh, collectives=1) == 8 * 4
    assert sent(lambda x: x[:-2], x, mesh=mesh, collectives=0) == 0
    assert sent(lambda x: x[::-1], x, mesh=mesh, collectives=2) == (16 + 1) * 8 * 4
    assert sent(lambda x: jax.numpy.pad(x, ((1, 2), (0, 0)), constant_values=5), x, mesh=mesh) <= 2 * 8 * 4


def test_uneven_parts_in_steps_exchange_what_crosses() -> None:
    """Steps of three over shards of 16 rows: devices are out of step by 2 more each, and send half a shard at most."""
    assert 0 < sent(lambda x: x[1::3], numbers(62, 8), mesh=sw.Mesh(x=4)) <= 8 * 8 * 4


def test_a_small_tensor_is_gathered_where_starting_collectives_costs_more() -> None:
    function, x = lambda x: x[:32], numbers(64, 8)
    spmd = sw.from_jax(function, x).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    assert (exchanging(spmd), spmd.traffic.total.static) == (0, 1)
    large = numbers(4096, 256)
    with sw.Session(hardware=sw.hardware("tpu_v5p").with_a_link()):
        assert exchanging(sw.from_jax(lambda x: x[:2048], large).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()) == 1


# --- pads


PADS = [
    ("a row in front, none of the last", (1, -1, 0), 1 * ROW, 1),
    ("a row at both ends", (2, 2, 0), 1 * ROW, 1),
    ("behind", (0, 4, 0), 3 * ROW, 1),
    ("more than a shard in front", (24, -24, 0), 16 * ROW, 2),
    ("a shard in front", (16, -16, 0), 16 * ROW, 1),
    ("a shard behind", (0, 64, 0), 32 * ROW, 2),
    ("all but one shard cut off", (-16, -32, 0), 12 * ROW, 3),
    ("between", (0, 1, 1), 0, 0),
    ("between, and two in front", (2, -1, 1), 1 * ROW, 1),
    ("two between, and four in front", (4, -2, 2), 1 * ROW, 1),
]


@pytest.mark.parametrize(("rows", "expected", "collectives"), [one[1:] for one in PADS], ids=[one[0] for one in PADS])
def test_a_pad_sends_the_rows_that_cross(rows: tuple[int, int, int], expected: int, collectives: int) -> None:
    def function(x: Any) -> Any:
        return jax.lax.pad(x, np.float32(np.nan), (rows, (1, 0, 0)))

    assert sent(function, numbers(64, 8), mesh=sw.Mesh(x=4), collectives=collectives) == expected


def test_a_pad_of_one_row_sends_one() -> None:
    """All others before: 3,145,728 bytes."""
    x = numbers(4096, 256)

    def function(x: Any) -> Any:
        return jax.lax.pad(x, np.float32(3), ((1, -1, 0), (0, 0, 0)))

    spmd = sw.from_jax(function, x).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    assert spmd.traffic.total.static_bytes == 256 * 4


# --- reversals


def test_a_reversal_is_one_permute() -> None:
    x = numbers(64, 8)
    assert sent(lambda x: x[::-1], x, mesh=sw.Mesh(x=4), collectives=1) == 16 * ROW
    assert sent(lambda x: x[::-1, ::-1], x, mesh=sw.Mesh(x=2, y=4), arg="x,y", collectives=1) == 64 * ROW / 8
    assert sent(lambda x: x[:, ::-1], x, mesh=sw.Mesh(x=4), collectives=0) == 0


# --- concatenations


def test_a_concatenation_of_two_sends_what_each_device_gets() -> None:
    """Both whole before: 6,291,456 bytes."""
    a, b = numbers(4096, 256), -numbers(4096, 256)
    function, mesh = (lambda a, b: jax.numpy.concatenate([a, b])), sw.Mesh(x=4)
    spmd = sw.from_jax(function, a, b).shard(mesh, args={0: "x,-", 1: "x,-"}).partition()
    assert spmd.traffic.total.static_bytes == 2 * 1024 * 256 * 4
    assert spmd.traffic.total.static == 2


@pytest.mark.parametrize("joined", [1, 2, 3, 4])
def test_what_is_joined_shares_its_collectives(joined: int) -> None:
    arrays = [numbers(64, 8) * 100**number for number in range(joined)]
    rounds = {1: 0, 2: 2, 3: 3, 4: 3}[joined]
    mesh = sw.Mesh(x=4)
    assert sent(lambda *x: jax.numpy.concatenate(x), *arrays, mesh=mesh, collectives=rounds) == rounds * 16 * ROW


# --- rolls


def test_a_roll_of_one_row_sends_one() -> None:
    """All but a shard of 4096 rows before: 3,145,728 bytes."""
    x = numbers(4096, 256)
    spmd = sw.from_jax(lambda x: jax.numpy.roll(x, 1, axis=0), x).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    assert (spmd.traffic.total.static, spmd.traffic.total.static_bytes) == (1, 256 * 4)
    assert not spmd.notes


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (-3, 3), (16, 16), (17, 16), (40, 16), (63, 1), (64, 0)])
def test_a_roll_sends_no_more_than_a_shard(rows: int, expected: int) -> None:
    assert sent(lambda x: jax.numpy.roll(x, rows, axis=0), numbers(64, 8), mesh=sw.Mesh(x=4)) == expected * ROW


def test_a_roll_along_several_dimensions() -> None:
    x, mesh = numbers(64, 8), sw.Mesh(x=4, y=2)

    def function(x: Any) -> Any:
        return jax.numpy.roll(x, (3, -2), axis=(0, 1))

    assert sent(function, x, mesh=mesh, arg="x,y", collectives=2) == (3 * 4 + 16 * 2) * 4


def test_a_roll_of_what_is_whole_stays_two_slices() -> None:
    spmd = partitioned(lambda x: jax.numpy.roll(x, 3, axis=1), numbers(64, 8), mesh=sw.Mesh(x=4))
    assert [op.name for op in spmd.explicit.walk()].count("stablehlo.slice") == 2
    small = sw.from_jax(lambda x: jax.numpy.roll(x, 30, axis=0) + x[:1], numbers(64, 8))
    spmd = small.shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    assert not [op for op in spmd.explicit.walk() if op.name == "shardwright.roll" and not exchanging(spmd)]
    assert spmd.verify().ok


def test_slices_that_are_read_otherwise_stay() -> None:
    def function(x: Any) -> Any:
        first, rest = x[:4], x[4:]
        return jax.lax.concatenate([rest, first], 0), first

    spmd = partitioned(function, numbers(64, 8), mesh=sw.Mesh(x=4))
    names = [op.name for op in spmd.explicit.walk()]
    assert (names.count("shardwright.roll"), names.count("stablehlo.slice")) == (1, 1)
    for actual, expected in zip(spmd.compile()(numbers(64, 8)), function(numbers(64, 8)), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "rows",
    [
        [slice(4, None), slice(None, 5)],
        [slice(4, None), slice(None, 3)],
        [slice(None, 4), slice(4, None)],
        [slice(4, None, 2), slice(None, 4)],
        [slice(4, None), slice(None, 4), slice(None, 4)],
    ],
    ids=str,
)
def test_what_is_joined_otherwise_is_no_roll(rows: list[slice]) -> None:
    x = numbers(64, 8)
    spmd = partitioned(lambda x: jax.lax.concatenate([x[one] for one in rows], 0), x, mesh=sw.Mesh(x=4))
    assert "shardwright.roll" not in [op.name for op in spmd.explicit.walk()]
    (actual,) = jax.tree.leaves(spmd.compile()(x))
    np.testing.assert_array_equal(actual, np.concatenate([x[one] for one in rows]))


def test_a_roll_written_at_all_stages() -> None:
    """The text of no stage has an op that is no dialect's."""
    spmd = partitioned(lambda x: jax.numpy.roll(x, 3, axis=0), numbers(64, 8), mesh=sw.Mesh(x=4))
    for stage in ("propagated", "explicit", "local"):
        assert "shardwright.roll" not in spmd.module(stage)


# --- whatever moves


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_sent_inside_is_priced_as_written(name: str) -> None:
    check_prices(MAKERS[name], range(12))


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
        return (x @ y)[:32]

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


def test_scalars_have_no_dimensions_to_move() -> None:
    text = """sdy.mesh @m = <["x"=4]>
    func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.pad %a, %a, low = [], high = [], interior = [] : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %1 = stablehlo.slice %0 [] : (tensor<f32>) -> tensor<f32>
      %2 = stablehlo.reverse %1, dims = [] : tensor<f32>
      return %2 : tensor<f32>
    }"""
    names = [op.name.removeprefix("stablehlo.") for op in sw.load(text).plan().partition().local.walk()]
    assert names == ["pad", "slice", "reverse", "func.return"]


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
