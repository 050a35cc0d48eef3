"""Our shardings and the `NamedSharding`s made of them put the same slices on the same devices."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.frontends.specs import parse_spec
from shardwright.mesh import Mesh
from shardwright.runtime.placement import named_shardings
from shardwright.sharding import TensorSharding
from tests.frontends.devices import eight_devices
from tests.frontends.test_specs import shardings

eight_devices()

MESHES = [Mesh(data=2, model=4), Mesh([("data", 2), ("model", 4)], device_ids=[3, 1, 2, 0, 7, 6, 5, 4]), Mesh(data=8)]


def agree(sharding: TensorSharding, shape: tuple[int, ...]) -> None:
    (named,) = named_shardings([sharding])
    indices = named.devices_indices_map(shape)
    devices = jax.devices()
    for position in range(sharding.mesh.size):
        slices = indices[devices[sharding.mesh.device_id(position)]]
        sizes = [range(size)[part] for part, size in zip(slices, shape, strict=True)]
        mine = sharding.device_slice(shape, position)
        assert sizes == [range(size)[part] for part, size in zip(mine, shape, strict=True)]


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("spec", ["data,.", ".,data", "-,-"])
def test_slices_lie_on_the_same_devices(mesh: Mesh, spec: str) -> None:
    agree(parse_spec(spec, mesh, 2), (16, 32))


@pytest.mark.parametrize("spec", ["x:(1)2,x:(2)4", "x:(2)2,x:(1)2", "x:(4)2+x:(1)2,."])
def test_parts_of_an_axis_become_axes_of_a_finer_mesh(spec: str) -> None:
    agree(parse_spec(spec, Mesh(x=8), 2), (16, 32))


@settings(max_examples=50, deadline=None)
@given(shardings())
def test_any_sharding_of_a_small_mesh(sharding: TensorSharding) -> None:
    small = Mesh(x=8)
    dims = tuple(type(dim)(tuple(axis for axis in dim.axes if axis.name == "x"), dim.open) for dim in sharding.dims)
    agree(TensorSharding(small, dims), (8,) * len(dims))


def test_all_shardings_of_one_mesh_share_one_jax_mesh() -> None:
    mesh = Mesh(x=8)
    one, other = named_shardings([parse_spec("x:(1)2", mesh, 1), parse_spec("x", mesh, 1)])
    assert one.mesh is other.mesh
    assert other.spec == jax.sharding.PartitionSpec(("x:(1)2", "x:(2)4"))


def test_too_few_devices() -> None:
    with pytest.raises(ShardingError) as caught:
        named_shardings([parse_spec("x", Mesh(x=16), 1)])
    diagnostic = caught.value.diagnostic
    assert diagnostic.message == "Mesh(x=16) has 16 devices, this process has 8"
    assert "jax_num_cpu_devices" in diagnostic.remedy


def test_shardings_whose_parts_nest_share_a_mesh_of_jax() -> None:
    mesh = Mesh(x=6)
    axes = (mesh.axis("x"), mesh.axis("x", 1, 2), mesh.axis("x", 1, 3))
    one, two, three = named_shardings([TensorSharding.of(mesh, [[axis]]) for axis in axes])
    assert one.mesh == two.mesh != three.mesh
    assert [named.shard_shape((6,)) for named in (one, two, three)] == [(1,), (3,), (2,)]


def test_compiled_results_lie_by_parts_that_do_not_nest() -> None:
    text = """sdy.mesh @m = <["x"=2, "y"=3]>
    sdy.mesh @n = <["a"=3, "b"=2]>
    func.func @main(%x: tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>})
        -> (tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@n, [{"b"}, {"a"}]>}) {
      %0 = stablehlo.tanh %x : tensor<12x12xf32>
      return %0 : tensor<12x12xf32>
    }"""
    x = np.linspace(-1, 1, 144, dtype=np.float32).reshape(12, 12)
    (result,) = jax.tree.leaves(sw.load(text).plan().partition().compile()(x))
    np.testing.assert_allclose(result, np.tanh(x), rtol=1e-6)
    assert result.sharding.shard_shape(result.shape) == (6, 4)
    devices = result.sharding.devices_indices_map(result.shape)
    assert devices[jax.devices()[1]] == (slice(6, 12), slice(0, 4))


def test_a_manual_computation_on_another_mesh_than_its_neighbours() -> None:
    text = """sdy.mesh @m = <["x"=4, "y"=2]>
    sdy.mesh @n = <["a"=2, "b"=4]>
    func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) {
      %0 = sdy.manual_computation(%x) in_shardings=[<@n, [{"b"}, {}]>] out_shardings=[<@n, [{"b"}]>]
          manual_axes={"a", "b"} (%rows: tensor<2x8xf32>) {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %1 = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [1]
            : (tensor<2x8xf32>, tensor<f32>) -> tensor<2xf32>
        sdy.return %1 : tensor<2xf32>
      } : (tensor<8x8xf32>) -> tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    (result,) = jax.tree.leaves(sw.load(text).plan().partition().compile()(x))
    np.testing.assert_allclose(result, x.sum(axis=1), rtol=1e-5)
