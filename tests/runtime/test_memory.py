"""In which order the elements of arguments lie in memory, and in which memory they are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.stage import STAGES
from tests.frontends.devices import eight_devices

eight_devices()

X = np.arange(128, dtype=np.float32).reshape(8, 16)


def named(*spec: Any, memory_kind: str | None = None) -> NamedSharding:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return NamedSharding(mesh, PartitionSpec(*spec), memory_kind=memory_kind)


def step(x: Any) -> Any:
    return jnp.sin(x) @ x.T


@pytest.mark.parametrize("layout", [Layout((1, 0)), Layout((0, 1)), Layout.AUTO])
def test_layouts_in_memory_are_honoured(layout: Any) -> None:
    """`mhlo.layout_mode`: a buffer in another order of elements holds other numbers."""
    here, there = Format(layout, named("data", "model")), Format(layout, named("data", None))
    fn = jax.jit(step, in_shardings=here, out_shardings=there)
    spmd = sw.from_jax(fn, jax.ShapeDtypeStruct(X.shape, X.dtype)).plan().partition()
    stated = 2 if layout != Layout((0, 1)) else 0  # JAX leaves the usual order out
    assert [spmd.module(stage).count("mhlo.layout_mode") for stage in STAGES] == [stated] * 3
    compiled = spmd.compile()
    y = compiled(X)
    np.testing.assert_allclose(y, np.sin(X) @ X.T, rtol=1e-4, atol=1e-3)
    if layout is not Layout.AUTO:
        assert y.format.layout.major_to_minor == layout.major_to_minor
    other = jax.device_put(X, Format(Layout((1, 0)), named("data", "model")))
    np.testing.assert_array_equal(compiled(other), y)
    if layout == Layout((1, 0)):
        assert spmd.verify([X]).ok
    (chosen,), _ = compiled.input_formats
    assert compiled(jax.device_put(X, chosen)).format == compiled.output_formats
    assert layout is Layout.AUTO or chosen.layout.major_to_minor == layout.major_to_minor
    inside = jax.jit(lambda x: compiled(x) + 1)(X)  # there orders are for the whole to choose
    np.testing.assert_array_equal(inside, y + 1)


def test_memory_kinds_are_kept() -> None:
    host, device = (named("data", "model", memory_kind=kind) for kind in ("pinned_host", "device"))

    def offloaded(x: Any, w: Any) -> Any:
        kept = jax.device_put(w, jax.memory.Space.Host)
        return jax.device_put(x, jax.memory.Space.Device) * 2 + w, kept

    fn = jax.jit(offloaded, in_shardings=(host, device), out_shardings=(device, host))
    like = jax.ShapeDtypeStruct(X.shape, X.dtype)
    plan = sw.from_jax(fn, like, like).plan()
    spmd = plan.partition()
    for stage in STAGES:
        text = spmd.module(stage)
        assert text.count('mhlo.memory_kind = "pinned_host"') == 2
        assert text.count("annotate_device_placement(") == 2
    assert not spmd.traffic.total.static, "placing a shard is each device's own affair"
    compiled = spmd.compile()
    moved, kept = compiled(X, X)
    np.testing.assert_array_equal(moved, 3 * X)
    np.testing.assert_array_equal(kept, X)
    assert [array.sharding.memory_kind for array in (moved, kept)] == ["device", "pinned_host"]
    assert [s.memory_kind for s in compiled.in_shardings] == ["pinned_host", "device"]
    assert [s.memory_kind for s in plan.in_shardings] == ["pinned_host", "device"]
    assert [s.memory_kind for s in plan.out_shardings] == ["device", "pinned_host"]
    assert spmd.verify([X, X]).ok
    (first, _), _ = compiled.input_formats
    assert first.sharding.memory_kind == "pinned_host"
    moved, kept = jax.jit(lambda x, w: compiled(x, w))(X, X)
    np.testing.assert_array_equal(moved, 3 * X)
    assert [array.sharding.memory_kind for array in (moved, kept)] == ["device", "pinned_host"]


def test_uneven_ones_in_other_memories_run_by_themselves() -> None:
    def function(x: Any) -> Any:
        return jax.device_put(2 * x, jax.memory.Space.Host)

    compiled = sw.jit(function, sw.Mesh(x=8), {0: PartitionSpec("x")}, results={0: PartitionSpec("x")})
    x = X[:7]
    y = compiled(x)
    np.testing.assert_array_equal(y, 2 * x)
    assert y.sharding.memory_kind == "pinned_host"
    with pytest.raises(sw.ShardingError, match="cannot be part of what JAX traces"):
        jax.jit(lambda x: compiled(x))(x)


def test_a_memory_that_devices_do_not_have_is_refused() -> None:
    text = """
sdy.mesh @mesh = <["x"=8]>
func.func @main(%x: tensor<8xf32> {mhlo.memory_kind = "attic"}) -> tensor<8xf32> { return %x : tensor<8xf32> }"""
    spmd = sw.load(text).plan().partition()
    with pytest.raises(sw.ShardingError, match="memory 'attic'"):
        spmd.compile()


def test_layouts_asked_for_within_a_program_cost_no_communication() -> None:
    def transposed(x: Any) -> Any:
        return jax.experimental.layout.with_layout_constraint(jnp.sin(x), Layout((1, 0))) * 2

    fn = jax.jit(transposed, in_shardings=named("data", "model"), out_shardings=named("data", "model"))
    spmd = sw.from_jax(fn, jax.ShapeDtypeStruct(X.shape, X.dtype)).plan().partition()
    assert "LayoutConstraint" in spmd.module("local")
    assert not spmd.traffic.total.static
    np.testing.assert_allclose(spmd.compile()(X), np.sin(X) * 2, rtol=1e-5)
