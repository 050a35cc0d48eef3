"""Sums over devices that are looked up, or put into a table: rows are taken of contributions, and added to them."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw

MESH = sw.Mesh(data=4, model=2)
EFFORTS = ("fast", "default", "lean")
PLACES = {"here": np.arange(32, dtype=np.int32) % 19 - 1, "there": np.arange(64, dtype=np.int32) % 18 - 1}
"""Places in a table of 16 rows; -1 is its last one, and some are behind that."""


def array(*shape: int, dtype: object = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


TABLE, HERE, SOME = array(16, 8), array(32, dtype=jnp.int32), array(32, 8)
THERE, MORE = array(64, dtype=jnp.int32), array(64, 8)


def partitioned(function: Callable[..., object], effort: str, *arguments: object, **args: str) -> sw.Spmd:
    plan = sw.from_jax(function, *arguments).shard(MESH, args)
    return plan.partition(effort=effort, optimize="all")


def two_updates(table: jax.Array, here: jax.Array, some: jax.Array, there: jax.Array, more: jax.Array) -> jax.Array:
    return table.at[here].add(some).at[there].add(more)


@pytest.mark.parametrize("effort", EFFORTS)
def test_what_several_scatters_add_to_a_table_is_reduced_once(effort: str) -> None:
    split = {"here": "data", "some": "data,-", "there": "data", "more": "data,-"}
    spmd = partitioned(two_updates, effort, TABLE, HERE, SOME, THERE, MORE, **split)
    assert spmd.outcome.collectives == 1
    assert spmd.outcome.bytes_sent == 16 * 8 * 4 * 2 * 3 / 4  # one all_reduce of the table over four devices
    assert spmd.verify(PLACES).ok


def test_updates_of_another_scatter_along_other_axes_are_not_mixed_up() -> None:
    split = {"here": "data", "some": "data,-", "there": "model", "more": "model,-"}
    for effort in EFFORTS:
        assert partitioned(two_updates, effort, TABLE, HERE, SOME, THERE, MORE, **split).verify(PLACES).ok


def test_a_maximum_of_what_was_added_needs_the_sum() -> None:
    def mixed(table: jax.Array, here: jax.Array, some: jax.Array, there: jax.Array, more: jax.Array) -> jax.Array:
        return table.at[here].add(some).at[there].max(more)

    split = {"here": "data", "some": "data,-", "there": "data", "more": "data,-"}
    assert partitioned(mixed, "default", TABLE, HERE, SOME, THERE, MORE, **split).verify(PLACES).ok


@pytest.mark.parametrize("effort", EFFORTS)
def test_updates_that_are_parts_of_sums_are_put_in_as_they_are(effort: str) -> None:
    def segments(table: jax.Array, here: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
        return table[:4].at[here].add(x @ w)

    split = {"x": "-,data", "w": "data,-"}
    spmd = partitioned(segments, effort, TABLE, HERE, array(32, 64), array(64, 8), **split)
    assert spmd.outcome.bytes_sent == 4 * 8 * 4 * 2 * 3 / 4  # of four rows in place of 32
    assert spmd.verify({"here": PLACES["here"] % 5}).ok


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("rows", ["-,-", "model,-"])
def test_rows_are_looked_up_in_contributions(effort: str, rows: str) -> None:
    def looked_up(x: jax.Array, w: jax.Array, last: jax.Array) -> jax.Array:
        return (x @ w)[last]

    last = array(4, dtype=jnp.int32)
    spmd = partitioned(looked_up, effort, array(32, 64), array(64, 8), last, x=rows.replace(",-", ",data"), w="data,-")
    devices = 4 if rows == "-,-" else 8
    assert spmd.outcome.bytes_sent <= 4 * 8 * 4 * 2 * (devices - 1) / devices  # of four rows in place of 32
    assert spmd.verify({"last": np.array([-1, 3, 31, 16], dtype=np.int32)}).ok


def test_whole_numbers_are_summed_before_they_are_looked_up_or_put_in() -> None:
    def counted(x: jax.Array, w: jax.Array, last: jax.Array) -> jax.Array:
        return jnp.zeros((4, 8), x.dtype).at[last].add((x @ w)[last])

    arguments = array(32, 64, dtype=jnp.int32), array(64, 8, dtype=jnp.int32), array(4, dtype=jnp.int32)
    assert partitioned(counted, "default", *arguments, x="-,data", w="data,-").verify().ok


def test_a_sum_written_by_hand_goes_behind_the_scatter_that_takes_its_result() -> None:
    text = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%t: tensor<4x8xf32>, %i: tensor<32x1xi32>, %a: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %b: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  %1 = sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}, {}]> : tensor<32x8xf32>
  %2 = "stablehlo.scatter"(%t, %i, %1) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %3 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<32x1xi32>, tensor<32x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}"""
    before, after = (sw.load(text).plan().partition(optimize=optimize) for optimize in ("off", "all"))
    assert (before.outcome.bytes_sent, after.outcome.bytes_sent) == (32 * 8 * 4 * 2 * 3 / 4, 4 * 8 * 4 * 2 * 3 / 4)
    assert after.verify({"i": np.arange(32, dtype=np.int32)[:, None] % 5}).ok
