"""Shardings as objects of JAX and PyTorch print themselves, and as attributes stand in modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.registry import parse_text

MESH = Mesh(x=2, y=4)
X = "[{x}, {}]"

TEXTS = {
    "NamedSharding(mesh=Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto)), spec=P('x', None), memory_kind=device)": X,
    "NamedSharding(mesh=Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Auto, Auto)), spec=P('x',))": X,
    "NamedSharding(mesh=AbstractMesh('x': 2, 'y': 4, device_kind=cpu, num_cores=None), spec=PartitionSpec('x'))": X,
    "GSPMDSharding({devices=[2,1,4]<=[8] last_tile_dim_replicate}, memory_kind=device)": X,
    "DTensorSpec(mesh=DeviceMesh((x=2, y=4), 'cpu', stride=(4, 1)), placements=(Shard(dim=0), Replicate()), "
    "tensor_meta=TensorMeta(shape=torch.Size([8, 16]), stride=(16, 1), dtype=torch.float32), "
    "shard_order=(ShardOrderEntry(tensor_dim=0, mesh_dims=(0,)),), use_strided_shard_as_shard_order=False)": X,
    "Spec(f32[8, 16](S(0)R))": X,
    "Spec(f32[8, 16](S(0)P(max)))": "[{x}, {}] partial=max{y}",
    "Spec(RS(1) on (8, 16))": "[{}, {y}]",
    'mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"': X,
    'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>': X,
    "<@mesh, [[0], []]>": X,
    "<@mesh, [[0]], partial = max [1]>": "[{x}, {}] partial=max{y}",
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_sharding_inside_is_read(text: str) -> None:
    assert repr(parse_text(text, shape=(8, 16), mesh=MESH)) == TEXTS[text]


@pytest.mark.parametrize("text", [text for text in TEXTS if "mesh=" in text])
def test_an_object_brings_its_mesh(text: str) -> None:
    sharding = parse_text(text, shape=(8, 16))
    assert sharding.mesh.axes == MESH.axes
    assert repr(sharding) == TEXTS[text]


def test_meshes_without_names_take_those_given() -> None:
    text = "DTensorSpec(mesh=DeviceMesh((2, 4), 'cpu'), placements=(Shard(dim=0), Replicate()))"
    assert repr(parse_text(text, shape=(8, 16))) == "[{dim_0}, {}]"
    assert repr(parse_text(text, shape=(8, 16), mesh=MESH)) == X


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NamedSharding(mesh=Mesh('x': 2), spec=P('x'))", "another mesh"),
        ("NamedSharding(mesh=Mesh(2), spec=P('x'))", "malformed"),
        ("NamedSharding(spec=P('x'))", "malformed"),
        ("Spec(f32[8, 8](S(0)R))", "shape"),
        ("Spec(f32[8, 16](S(0)Q))", "malformed"),
        ("DTensorSpec(mesh=DeviceMesh((x=a), 'cpu'), placements=(Replicate(),))", "malformed"),
        ("[S(0), MaskP(sum, torch.Size([4]), 0)]", "malformed"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message) as caught:
        parse_text(text, shape=(8, 16), mesh=MESH)
    assert caught.value.diagnostic.cause


@pytest.mark.oracle
def test_what_jax_prints_is_read() -> None:
    program = """
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
print(repr(NamedSharding(mesh, P("x", None))))
print(str(NamedSharding(mesh.abstract_mesh, P("x"))))
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=flags, check=True, timeout=120
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert repr(parse_text(line, shape=(8, 16))) == X
