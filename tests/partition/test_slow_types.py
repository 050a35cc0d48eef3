"""Products of elements that a device multiplies slowly take as long as they do, and are shared out where that pays."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES, hardware
from shardwright.cost.price import Cost, price
from shardwright.cost.roofline import roofline_seconds
from shardwright.partition.splits import splits_of

SIZE = 4096


def product(dtype: str, precision: str = "DEFAULT") -> str:
    """A product of two squares."""
    type = f"tensor<{SIZE}x{SIZE}x{dtype}>"
    return f"""func.func @main(%x: {type}, %y: {type}) -> {type} {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [{precision}, {precision}]
        : ({type}, {type}) -> {type}
      return %0 : {type}
    }}"""


def cost(text: str, name: str) -> Cost:
    """What a product costs that each device computes whole."""
    op, _ = sw.load(text).graph.walk()
    splits = splits_of(op.signature)
    assert splits is not None
    return splits.work([1] * len(splits.rule.sizes), hardware(name))


@pytest.mark.parametrize("name", ["h100", "tpu_v5p", "cpu_8"])
@pytest.mark.parametrize(
    ("dtype", "precision", "peak"),
    [
        ("bf16", "DEFAULT", "bf16"),
        ("f32", "DEFAULT", "tf32"),
        ("f32", "HIGHEST", "f32"),
        ("f64", "DEFAULT", "f64"),
        ("f64", "HIGHEST", "f64"),
    ],
)
def test_a_product_takes_what_its_elements_do(name: str, dtype: str, precision: str, peak: str) -> None:
    made = cost(product(dtype, precision), name)
    moved = 3 * SIZE * SIZE * {"bf16": 2, "f32": 4, "f64": 8}[dtype]
    seconds = roofline_seconds(hardware(name), operations=2 * SIZE**3, bytes_moved=moved, dtype=peak)
    assert made.multiply_adds == SIZE**3
    assert price(made, hardware(name)) == pytest.approx(seconds)


def test_where_multiplying_takes_no_time_none_is_slower() -> None:
    op, _ = sw.load(product("f64")).graph.walk()
    splits = splits_of(op.signature)
    assert splits is not None
    assert splits.work([1] * len(splits.rule.sizes), BYTES) == Cost(multiply_adds=SIZE**3)


@pytest.mark.parametrize(("dtype", "seconds"), [("f64", 0.8e-3), ("f32", 0.25e-3)])
def test_devices_share_out_a_product_that_takes_them_longer_than_to_gather_it(dtype: str, seconds: float) -> None:
    """All of them have both squares, and want all of the product: of bf16 alone each would rather compute it."""
    with sw.Session(hardware=hardware("h100")):
        spmd = sw.load(product(dtype)).shard(sw.Mesh(x=8)).partition(effort="default")
    assert f"tensor<{SIZE // 8}x{SIZE}x{dtype}>" in spmd.module("local")
    assert spmd.searched is not None
    assert spmd.searched.seconds < seconds < spmd.searched.seconds_before
