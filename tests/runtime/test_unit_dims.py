"""Collectives of tensors with dimensions of size 1, where a per-device program becomes a part of what JAX compiles."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.ir.context import context, load_module
from shardwright.runtime.unit_dims import drop_unit_dims
from tests.frontends.devices import eight_devices

eight_devices()

GROUPS = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
SUM = """({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""


class Case(NamedTuple):
    """A collective: what it says of dimensions, its region, the shapes of its operand and its result.

    And what it says, and which type it has, without dimensions of size 1.
    """

    dims: str
    region: str
    taken: str
    given: str
    dims_left: str
    type_left: str


CASES = {
    "all_reduce": Case("", SUM, "1x4x1x8", "1x4x1x8", "", "(tensor<4x8xf32>) -> tensor<4x8xf32>"),
    "all_gather": Case(
        "all_gather_dim = 2 : i64, ",
        "",
        "1x4x1x8",
        "1x4x8x8",
        "all_gather_dim = 1 : i64",
        "(tensor<4x1x8xf32>) -> tensor<4x8x8xf32>",
    ),
    "reduce_scatter": Case(
        "scatter_dimension = 3 : i64, ",
        SUM,
        "1x4x1x8",
        "1x4x1x1",
        "scatter_dimension = 1 : i64",
        "(tensor<4x8xf32>) -> tensor<4x1xf32>",
    ),
    "all_to_all": Case(
        "split_dimension = 3 : i64, concat_dimension = 0 : i64, split_count = 8 : i64, ",
        "",
        "1x4x1x8",
        "8x4x1x1",
        "split_dimension = 2 : i64",
        "(tensor<1x4x8xf32>) -> tensor<8x4x1xf32>",
    ),
}


def module(name: str) -> str:
    case = CASES[name]
    taken, given = f"tensor<{case.taken}xf32>", f"tensor<{case.given}xf32>"
    op = f'"stablehlo.{name}"(%a) <{{{case.dims}{GROUPS}}}> {case.region} : ({taken}) -> {given}'
    return f"func.func @main(%a: {taken}) -> {given} {{\n  %0 = {op}\n  return %0 : {given}\n}}"


@pytest.mark.parametrize("name", CASES)
def test_dimensions_of_size_1_are_left_out_but_those_that_a_collective_names(name: str) -> None:
    read = load_module(module(name))
    with context():
        drop_unit_dims(read)
    assert read.operation.verify()
    text = str(read)
    assert CASES[name].type_left in text
    assert text.count("stablehlo.reshape") == 2
    assert CASES[name].dims_left in text
    assert ("concat_dimension = 0 : i64" in text) == (name == "all_to_all")


def test_those_of_other_tensors_stay_as_they_are() -> None:
    text = str(load_module(module("all_reduce").replace("1x4x1x8", "2x4x3x8")))
    read = load_module(text)
    with context():
        drop_unit_dims(read)
    assert str(read) == text


def test_programs_that_have_them_compute_the_same_within_others() -> None:
    def function(x: Any, v: Any, w: Any) -> Any:
        hidden = jnp.tanh(x @ v)
        return jnp.einsum("abi,ibj->abj", hidden, w), hidden.sum(-1)

    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape, np.float32) for shape in ((8, 1, 16), (16, 32), (32, 1, 16))]
    plan = sw.from_jax(function, *values).shard(sw.Mesh(x=2, y=4), args={0: "x", 1: "-,y", 2: "y"})
    compiled = plan.partition().compile(trial=False)
    outside = jax.jit(lambda *values: jax.tree.map(lambda one: 2 * one, compiled(*values)))
    assert "(tensor<4x16xf32>) -> tensor<4x16xf32>" in outside.lower(*values).as_text()  # the sum of the second product
    for found, expected in zip(outside(*values), function(*values), strict=True):
        np.testing.assert_allclose(found, 2 * expected, rtol=1e-5, atol=1e-5)
