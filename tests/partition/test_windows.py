"""Ops that slide windows along split dimensions: they stay split, and the rows that windows share are sent."""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.cost.hardware import BYTES
from shardwright.memo import Session
from tests.frontends.devices import eight_devices
from tests.partition.shifting import Maker, Moving, check_prices, check_programs, exchanging, tensor
from tests.partition.test_shifts import numbers, partitioned, sent
from tests.rules.corpus import array, matrix

eight_devices()

FUZZ = int(os.environ.get("SHARDWRIGHT_FUZZ", "6"))
"""How many random programs of each op are tried."""


class Windows:
    """Random windows along the dimensions of a shape, of which each count of shards divides the results."""

    def __init__(self, rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> None:
        self.sizes: list[int] = []
        self.strides: list[int] = []
        self.base: list[int] = []
        self.within: list[int] = []
        self.pads: list[list[int]] = []
        self.results: list[int] = []
        for rows, count in zip(shape, counts, strict=True):
            size, stride = rng.choice([1, 2, 3, 3, rng.randint(1, rows)]), rng.choice([1, 1, 2, 3])
            base, within = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2])
            room, reach = (rows - 1) * base + 1, (size - 1) * within + 1
            low = rng.choice([0, 0, 1, reach // 2, reach - 1, rng.randint(1 - rows, 4)])
            results = count * rng.randint(1, max(1, (room + 4) // (count * stride)))
            needed = (results - 1) * stride + reach
            self.sizes.append(size)
            self.strides.append(stride)
            self.base.append(base)
            self.within.append(within)
            self.pads.append([low, needed + rng.randrange(stride) - low - room])
            self.results.append(results)


# --- reductions of windows


def random_pooling(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A reduction of windows from an initial value that counts."""
    windows, choice = Windows(rng, shape, counts), rng.randrange(4)

    def write(name: str, names: Any, dtype: str) -> str:
        exact = {"i1": ["or", "and"], "complex<f32>": ["add"], "bf16": ["maximum", "minimum"]}
        kinds = exact.get(dtype, ["add", "maximum", "minimum", "add"])
        kind = kinds[choice % len(kinds)]
        whole = dtype.startswith(("i", "ui"))
        first = {"i1": "false", "complex<f32>": "(2.0, 3.0)"}.get(dtype, "3" if whole else "3.0")
        element = f"tensor<{dtype}>"
        return f"""{name}_first = stablehlo.constant dense<{first}> : {element}
      {name} = "stablehlo.reduce_window"({names[0]}, {name}_first) <{{
        window_dimensions = {array(windows.sizes)}, window_strides = {array(windows.strides)},
        base_dilations = {array(windows.base)}, window_dilations = {array(windows.within)},
        padding = {matrix(windows.pads)}}}> ({{
        ^bb0(%p: {element}, %q: {element}):
          %c = stablehlo.{kind} %p, %q : {element}
          stablehlo.return %c : {element}
      }}) : ({tensor(shape, dtype)}, {element}) -> {tensor(windows.results, dtype)}"""

    return Moving((shape,), tuple(windows.results), write)


def random_convolution(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A convolution with a kernel that every device makes; the last dimension may be the batch, split as well."""
    along = len(shape) - (len(shape) > 1 and rng.random() < 0.4)
    windows, digits = Windows(rng, shape[:along], counts[:along]), list(map(str, range(along)))
    groups, inputs, outputs = rng.choice([1, 1, 2, 3]), rng.choice([1, 2]), rng.choice([1, 2])
    batch = shape[along:] or (rng.choice([1, 2]),)
    image, result = (*shape[:along], *batch, inputs * groups), (*windows.results, *batch, outputs * groups)
    sizes = dict(zip(digits, windows.sizes, strict=True)) | {"i": inputs, "o": outputs * groups}
    order = rng.sample(list(sizes), len(sizes))
    kernel = [sizes[dim] for dim in order]
    reversal = ", ".join(rng.choice(["true", "false"]) for _ in digits)
    sides = ", ".join([*digits, "b", "f"])

    def write(name: str, names: Any, dtype: str) -> str:
        computed = {"i1": "i32", "ui8": "i32", "bf16": "f32"}.get(dtype, dtype)
        count, wide = tensor([int(np.prod(kernel))], "i32"), tensor(image, computed)
        return f"""{name}_x = stablehlo.convert {names[0]} : ({tensor(image, dtype)}) -> {wide}
      {name}_i = stablehlo.iota dim = 0 : {count}
      {name}_s = stablehlo.constant dense<5> : {count}
      {name}_m = stablehlo.remainder {name}_i, {name}_s : {count}
      {name}_p = stablehlo.add {name}_m, {name}_s : {count}
      {name}_r = stablehlo.reshape {name}_p : ({count}) -> {tensor(kernel, "i32")}
      {name}_k = stablehlo.convert {name}_r : ({tensor(kernel, "i32")}) -> {tensor(kernel, computed)}
      {name}_c = "stablehlo.convolution"({name}_x, {name}_k) <{{
        dimension_numbers = #stablehlo.conv<[{sides}]x[{", ".join(order)}]->[{sides}]>,
        window_strides = {array(windows.strides)}, padding = {matrix(windows.pads)},
        lhs_dilation = {array(windows.base)}, rhs_dilation = {array(windows.within)},
        window_reversal = array<i1: {reversal}>,
        feature_group_count = {groups} : i64, batch_group_count = 1 : i64}}>
        : ({wide}, {tensor(kernel, computed)}) -> {tensor(result, computed)}
      {name} = stablehlo.convert {name}_c : ({tensor(result, computed)}) -> {tensor(result, dtype)}"""

    return Moving((image,), result, write)


def random_scattering(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """The gradient of pooling, of windows that lie beside each other or now and then take an element of the next."""
    sizes, strides, pads, source = [], [], [], []
    for rows, count in zip(shape, counts, strict=True):
        stride = rng.choice([step for step in range(1, rows // count + 1) if rows // count % step == 0])
        shared = int(rng.random() < 0.2)
        sizes.append(stride + 1 if shared else rng.randint(1, stride))
        strides.append(stride)
        pads.append([0, shared])
        source.append(rows // stride)

    def write(name: str, names: Any, dtype: str) -> str:
        computed = {"i1": "i32", "ui8": "i32", "complex<f32>": "f32", "bf16": "f32"}.get(dtype, dtype)
        element, wide, given = f"tensor<{computed}>", tensor(shape, computed), tensor(source, computed)
        real = "real" if dtype.startswith("c") else "convert"
        back = "convert" if not dtype.startswith("c") else f"complex {name}_c,"
        types = f"({wide}) -> {tensor(shape, dtype)}" if real == "convert" else tensor(shape, dtype)
        return f"""{name}_f = stablehlo.constant dense<{"2" if computed[0] == "i" else "2.0"}> : {element}
      {name}_x = stablehlo.{real} {names[0]} : ({tensor(shape, dtype)}) -> {wide}
      {name}_y = stablehlo.{real} {names[1]} : ({tensor(source, dtype)}) -> {given}
      {name}_c = "stablehlo.select_and_scatter"({name}_x, {name}_y, {name}_f) <{{
        window_dimensions = {array(sizes)}, window_strides = {array(strides)}, padding = {matrix(pads)}}}> ({{
        ^bb0(%p: {element}, %q: {element}):
          %c = stablehlo.compare GE, %p, %q : ({element}, {element}) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }}, {{
        ^bb0(%p: {element}, %q: {element}):
          %c = stablehlo.add %p, %q : {element}
          stablehlo.return %c : {element}
      }}) : ({wide}, {given}, {element}) -> {wide}
      {name} = stablehlo.{back} {name}_c : {types}"""

    return Moving((shape, tuple(source)), shape, write)


def random_kernel_gradient(rng: random.Random, shape: tuple[int, ...], counts: tuple[int, ...]) -> Moving:
    """A convolution of few windows, of a kernel split as the image is; the result is laid out along dimensions of its own.

    That is a sum of what devices make of their parts.
    """
    rank = len(shape)
    windows = Windows(rng, shape, counts)
    kernel = [rows // count * count for rows, count in zip(shape, counts, strict=True)]
    results = [rng.randint(1, min(3, size)) for size in kernel]
    columns = zip(shape, kernel, results, windows.strides, windows.base, windows.within, windows.pads, strict=True)
    pads = [
        [low, (count - 1) * stride + (size - 1) * within + 1 + rng.randrange(stride) - (rows - 1) * base - 1 - low]
        for rows, size, count, stride, base, within, (low, _) in columns
    ]
    image, window = (*shape, 2, 3), (*kernel, 3, 2)
    made, result = (*results, 2, 2), (*counts, *results, 2, 2)
    digits = list(map(str, range(rank)))
    order, within_order = (", ".join([*digits, *last]) for last in (("b", "f"), ("i", "o")))

    def write(name: str, names: Any, dtype: str) -> str:
        computed = {"i1": "i32", "ui8": "i32", "bf16": "f32"}.get(dtype, dtype)
        types = [(tensor(one, dtype), tensor(one, computed)) for one in (image, window, result)]
        placed = ", ".join(map(str, range(rank, len(result))))
        return f"""{name}_x = stablehlo.convert {names[0]} : ({types[0][0]}) -> {types[0][1]}
      {name}_k = stablehlo.convert {names[1]} : ({types[1][0]}) -> {types[1][1]}
      {name}_c = "stablehlo.convolution"({name}_x, {name}_k) <{{
        dimension_numbers = #stablehlo.conv<[{order}]x[{within_order}]->[{order}]>,
        window_strides = {array(windows.strides)}, padding = {matrix(pads)},
        lhs_dilation = {array(windows.base)}, rhs_dilation = {array(windows.within)},
        feature_group_count = 1 : i64, batch_group_count = 1 : i64}}>
        : ({types[0][1]}, {types[1][1]}) -> {tensor(made, computed)}
      {name}_b = stablehlo.broadcast_in_dim {name}_c, dims = [{placed}] : ({tensor(made, computed)}) -> {types[2][1]}
      {name} = stablehlo.convert {name}_b : ({types[2][1]}) -> {types[2][0]}"""

    return Moving((image, window), result, write)


MAKERS: dict[str, Maker] = {
    "kernel gradient": random_kernel_gradient,
    "pooling": random_pooling,
    "convolution": random_convolution,
    "scattering": random_scattering,
}


@pytest.mark.parametrize("name", MAKERS)
def test_sharded_is_unsharded(name: str) -> None:
    wild = name != "kernel gradient"  # 0 · ∞ of padding is NaN, where XLA may leave padding out
    check_programs(MAKERS[name], range(FUZZ), wild=wild)


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_sent_inside_is_priced_as_written(name: str) -> None:
    check_prices(MAKERS[name], range(12))


ROW = 8 * 4
"""Bytes of a row."""


def pool(size: int, stride: int, padding: Any, first: float = -np.inf, combine: Any = lax.max) -> Any:
    """A reduction of windows of some rows of a matrix."""

    def function(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(first), combine, (size, 1), (stride, 1), padding)

    return function


POOLS = [
    ("windows side by side", pool(2, 2, "VALID"), 0, 0),
    ("every fourth row", pool(1, 4, "VALID"), 0, 0),
    ("a row of each neighbour", pool(3, 1, "SAME", 0.0, lax.add), 2 * ROW, 2),
    ("a row of the next", pool(3, 2, "SAME"), 1 * ROW, 1),
    ("two rows of the one before", pool(3, 1, ((2, 0), (0, 0))), 2 * ROW, 1),
    ("one of each of three in front", pool(2, 2, ((33, -33), (0, 0))), 16 * ROW, 2),
    ("an initial value that counts", pool(3, 1, "SAME", 5.0, lax.add), 2 * ROW, 2),
    ("rows cut off at both ends", pool(3, 1, ((-1, 3), (0, 0))), 3 * ROW, 1),
]


@pytest.mark.parametrize(
    ("function", "expected", "collectives"), [one[1:] for one in POOLS], ids=[one[0] for one in POOLS]
)
def test_pooling_sends_the_rows_that_windows_share(function: Any, expected: int, collectives: int) -> None:
    assert sent(function, numbers(64, 8), mesh=sw.Mesh(x=4), collectives=collectives) == expected


def test_an_initial_value_counts_where_a_shard_is_one_window() -> None:
    """XLA drops it there, if it is not combined behind the reduction."""
    function = pool(3, 3, "VALID", 5.0, lax.add)
    assert sent(function, numbers(24, 1), mesh=sw.Mesh(x=8), collectives=0) == 0


def test_two_split_dimensions_send_corners_along() -> None:
    x = numbers(32, 64)

    def function(x: Any) -> Any:
        return lax.reduce_window(x, np.float32(0), lax.add, (3, 3), (1, 1), "SAME")

    row, column = 16, 16 + 2
    assert sent(function, x, mesh=sw.Mesh(x=2, y=4), arg="x,y", collectives=3) == (row + 2 * column) * 4


def test_a_running_sum_as_windows_of_all_before() -> None:
    """Windows that take all rows are no reason to send more than a gather does."""
    x = numbers(64, 8) % 7
    function = pool(64, 1, ((63, 0), (0, 0)), 0.0, lax.add)
    for devices in (2, 4):
        spmd = partitioned(function, x, mesh=sw.Mesh(x=devices))
        (actual,) = jax.tree.leaves(spmd.compile()(x))
        np.testing.assert_array_equal(actual, function(x))
        assert spmd.traffic.total.static_bytes <= (devices - 1) * 64 // devices * ROW


def _greatest_with_place(padding: Any) -> Any:
    """The greatest of each window and where it stands: a computation of its own."""

    def combine(one: Any, other: Any) -> Any:
        first = (one[0] > other[0]) | ((one[0] == other[0]) & (one[1] < other[1]))
        return tuple(lax.select(first, a, b) for a, b in zip(one, other, strict=True))

    def function(x: Any) -> Any:
        initial = (np.float32(-np.inf), np.int32(2**31 - 1))
        places = lax.broadcasted_iota(np.int32, x.shape, 0)
        return lax.reduce_window((x, places), initial, combine, (3, 1), (2, 1), padding)

    return function


@pytest.mark.parametrize(("padding", "inside"), [(((-1, 0), (0, 0)), 1), (((0, 1), (0, 0)), 0)])
def test_a_computation_of_its_own_is_split_where_windows_take_no_padding(padding: Any, inside: int) -> None:
    x = numbers(65 + inside, 8)[: 64 + inside * 2] * np.float32(-1)
    spmd = partitioned(_greatest_with_place(padding), x, mesh=sw.Mesh(x=2))
    assert exchanging(spmd) == inside
    for actual, expected in zip(jax.tree.leaves(spmd.compile()(x)), _greatest_with_place(padding)(x), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_what_was_written_is_read_again_as_the_same() -> None:
    x = numbers(64, 8)
    spmd = partitioned(pool(3, 1, "SAME", 5.0, lax.add), x, mesh=sw.Mesh(x=4))
    again = sw.load(spmd.module("explicit")).plan().partition(effort="fast")
    third = sw.load(again.module("explicit")).plan().partition(effort="fast")
    assert third.module("explicit") == again.module("explicit")
    assert again.traffic.total == spmd.traffic.total
    (actual,) = jax.tree.leaves(again.compile()(x))
    np.testing.assert_array_equal(actual, pool(3, 1, "SAME", 5.0, lax.add)(x))


@pytest.mark.parametrize("devices", [2, 8])
def test_the_gradient_of_windows_beside_each_other_sends_nothing(devices: int) -> None:
    """Nor does it gather the source, whose sharding does not propagate to the operand, nor from there."""

    def function(x: Any) -> Any:
        def maxima(x: Any) -> Any:
            return lax.reduce_window(x, -np.inf, lax.max, (2, 1), (2, 1), "VALID")

        return jax.grad(lambda x: (maxima(x) ** 2).sum())(x)

    assert sent(function, numbers(64, 8) % 13, mesh=sw.Mesh(x=devices), collectives=0) == 0


def test_the_gradient_of_windows_that_overlap_is_gathered_and_told_of() -> None:
    def function(x: Any) -> Any:
        def maxima(x: Any) -> Any:
            return lax.reduce_window(x, -np.inf, lax.max, (3, 1), (2, 1), "SAME")

        return jax.grad(lambda x: (maxima(x) ** 2).sum())(x)

    x = numbers(64, 8) % 13
    spmd = partitioned(function, x, mesh=sw.Mesh(x=4))
    gathered = {note.message.partition(":")[0] for note in spmd.notes if note.op == "stablehlo.select_and_scatter"}
    assert {"an operand is gathered along dimension 0 (65)", "operand 1 is gathered along dimension 0"} <= gathered
    (actual,) = jax.tree.leaves(spmd.compile()(x))
    np.testing.assert_array_equal(actual, function(x))


# --- convolutions

IMAGE = (2, 16, 32, 4)
"""Batch, two spatial dimensions, features."""

CONVOLUTIONS = [
    ("3 by 3", (3, 3), {"padding": "SAME"}, 2, 2),
    ("1 by 1", (1, 1), {"padding": "SAME"}, 0, 0),
    ("every second of 1 by 1", (1, 1), {"padding": "SAME", "window_strides": (2, 2)}, 0, 0),
    ("every second", (3, 3), {"padding": "SAME", "window_strides": (2, 2)}, 1, 1),
    ("side by side", (2, 2), {"padding": "VALID", "window_strides": (2, 2)}, 0, 0),
    ("dilated", (3, 3), {"padding": "SAME", "rhs_dilation": (2, 2)}, 4, 2),
    ("of a dilated image", (3, 3), {"padding": ((1, 2), (1, 2)), "lhs_dilation": (2, 2)}, 1, 1),
    ("from all before", (1, 16), {"padding": ((0, 0), (15, 0))}, 15, 4),
    ("channel by channel", (3, 3), {"padding": "SAME", "feature_group_count": 4}, 2, 2),
]


@pytest.mark.parametrize(
    ("kernel", "settings", "columns", "collectives"),
    [one[1:] for one in CONVOLUTIONS],
    ids=[c[0] for c in CONVOLUTIONS],
)
def test_a_convolution_sends_what_windows_share(
    kernel: tuple[int, int], settings: dict[str, Any], columns: int, collectives: int
) -> None:
    def function(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, **options)

    options = {"window_strides": (1, 1), "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **settings}
    x, k = numbers(*IMAGE) % 11, numbers(*kernel, 4 // settings.get("feature_group_count", 1), 4) % 7
    with Session(hardware=BYTES):
        spmd = sw.from_jax(function, x, k).shard(sw.Mesh(x=8), args={0: "-,-,x,-"}).partition(effort="fast")
    (actual,) = jax.tree.leaves(spmd.compile()(x, k))
    np.testing.assert_allclose(actual, function(x, k), rtol=1e-6)
    assert not spmd.notes
    batch, height, _, features = IMAGE
    assert spmd.traffic.total.static_bytes == columns * batch * height * features * 4
    assert spmd.traffic.total.static == collectives


def test_a_convolution_of_images_sends_a_row_to_each_neighbour() -> None:
    """Images were gathered: 7,340,032 bytes."""

    def function(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x, k = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((8, 64, 64, 64), (3, 3, 64, 64)))
    spmd = sw.from_jax(function, x, k).shard(sw.Mesh(x=8), args={0: "-,x,-,-"}).partition(effort="fast")
    assert (spmd.traffic.total.static, spmd.traffic.total.static_bytes) == (2, 2 * 8 * 64 * 64 * 4)


def test_small_images_are_not_gathered_to_start_one_collective_in_place_of_two_that_run_at_once() -> None:
    """They were: 12,288 bytes."""

    def function(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    x, k = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((2, 16, 16, 8), (3, 3, 8, 8)))
    spmd = sw.from_jax(function, x, k).shard(sw.Mesh(x=4), args={0: "-,x,-,-"}).partition(effort="fast")
    assert (spmd.traffic.total.static, spmd.traffic.total.static_bytes) == (2, 2 * 2 * 16 * 8 * 4)


@pytest.mark.parametrize(
    ("mesh", "image", "result", "collectives"),
    [
        ('"x"=3', "-,-,-,-", '[{"x"}, {}, {}, {}]', 0),
        ('"x"=2', "-,-,-,-", '[{}, {"x"}, {}, {}]', 0),
        ('"x"=3, "y"=2', "-,-,-,-", '[{"x"}, {"y"}, {}, {}]', 0),
        ('"x"=3, "y"=2', "y,-,-,-", '[{"x"}, {}, {}, {}]', 1),
        ('"x"=3, "y"=2', "-,y,-,-", '[{"x"}, {}, {}, {}]', 2),
    ],
    ids=["even", "uneven", "both dimensions", "beside a sum", "of what is fetched for parts of the cotangent"],
)
def test_the_few_windows_of_a_kernel_gradient_are_shared_out(
    mesh: str, image: str, result: str, collectives: int
) -> None:
    """Each device computed all of them."""

    def function(x: Any, cotangent: Any) -> Any:
        def convolve(k: Any) -> Any:
            return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        (gradient,) = jax.linear_transpose(convolve, jax.ShapeDtypeStruct((3, 3, 4, 6), "float32"))(cotangent)
        return gradient

    x, cotangent = numbers(2, 16, 32, 4) % 11, numbers(2, 16, 32, 6) % 7
    text = jax.jit(function).lower(x, cotangent).as_text()
    text = text.replace('"result"', f'"result", sdy.sharding = #sdy.sharding<@mesh, {result}>')
    with Session(hardware=BYTES):
        spmd = (
            sw.load(text.replace("{\n", f"{{\n  sdy.mesh @mesh = <[{mesh}]>\n", 1))
            .shard(args=[image] * 2)
            .partition(effort="fast")
        )
    (actual,) = jax.tree.leaves(spmd.compile()(x, cotangent))
    np.testing.assert_allclose(actual, function(x, cotangent), rtol=1e-6)
    assert not spmd.notes
    assert spmd.traffic.total.static == collectives


@pytest.mark.parametrize(("stride", "rows", "collectives"), [(1, 2, 2), (2, 1, 1)])
def test_the_gradient_of_a_kernel_sends_what_windows_share_and_its_sum(
    stride: int, rows: int, collectives: int
) -> None:
    """Image and cotangent were gathered."""

    def function(x: Any, cotangent: Any) -> Any:
        def convolve(k: Any) -> Any:
            return lax.conv_general_dilated(x, k, (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

        (gradient,) = jax.linear_transpose(convolve, jax.ShapeDtypeStruct((3, 3, 4, 6), "float32"))(cotangent)
        return gradient

    x, cotangent = numbers(2, 16, 32, 4) % 11, numbers(2, 16 // stride, 32 // stride, 6) % 7
    with Session(hardware=BYTES):
        spmd = (
            sw.from_jax(function, x, cotangent)
            .shard(sw.Mesh(x=4), args={0: "-,x,-,-", 1: "-,x,-,-"})
            .partition(effort="fast")
        )
    (actual,) = jax.tree.leaves(spmd.compile()(x, cotangent))
    np.testing.assert_allclose(actual, function(x, cotangent), rtol=1e-6)
    assert not spmd.notes
    summed = 2 * 3 / 4 * 3 * 3 * 4 * 6
    assert spmd.traffic.total.static_bytes == (rows * 2 * 32 * 4 + summed) * 4
    assert spmd.traffic.total.static == collectives + 1
