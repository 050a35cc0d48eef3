"""Our shardings and the `NamedSharding`s made of them put the same slices on the same devices."""

from __future__ import annotations

import jax
import pytest
from hypothesis import given, settings

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
