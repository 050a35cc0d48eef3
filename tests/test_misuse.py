"""What users give that is not quite what is asked for: taken where it is clear, else refused with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.program.program import EXAMPLE
from tests.frontends.devices import eight_devices

eight_devices()

P = jax.sharding.PartitionSpec
MESH = sw.Mesh(data=2, model=4)


def _jax_mesh(order: list[int] | None = None) -> jax.sharding.Mesh:
    devices = np.array(jax.devices()[:8])
    return jax.sharding.Mesh(devices[order or list(range(8))].reshape(2, 4), ("data", "model"))


def _shard(mesh: Any = MESH, args: Any = None, **options: Any) -> sw.Plan:
    return sw.load(EXAMPLE).shard(mesh, {"x": "data,-"} if args is None else args, **options)


@pytest.mark.parametrize(
    "mesh",
    [
        lambda: {"data": 2, "model": 4},
        lambda: "data=2,model=4",
        lambda: sw.Mesh(data=np.int64(2), model=np.uint8(4)),  # type: ignore[arg-type]
        lambda: sw.Mesh({"data": 2, "model": 4}),
        _jax_mesh,
        lambda: _jax_mesh().abstract_mesh,
    ],
)
def test_meshes(mesh: Callable[[], Any]) -> None:
    plan = _shard(mesh())
    assert plan.mesh == MESH
    assert all(type(size) is int for size in plan.mesh.sizes.values())


def test_a_jax_mesh_keeps_its_order_of_devices() -> None:
    order = [3, 2, 1, 0, 7, 6, 5, 4]
    plan = _shard(_jax_mesh(order))
    assert plan.mesh.device_ids == tuple(order)
    first, _ = plan.in_shardings
    assert [device.id for device in first.mesh.devices.flat] == order


@pytest.mark.parametrize(
    "args",
    [
        ["data,-", "-,model"],
        ("data,-", "-,model"),
        {"x": ("data", P.UNCONSTRAINED), "w": [P.UNCONSTRAINED, "model"]},
        {np.int64(0): "data,-", 1: "-,model"},
        {"0": "data,-", "w": "-,model"},
    ],
)
def test_shardings_of_arguments(args: Any) -> None:
    plan = _shard(args=args)
    assert repr(plan.arguments["x"]) == "[{data}, {}]"
    assert repr(plan.arguments["w"]) == "[{}, {model}]"


def test_named_shardings_of_arguments() -> None:
    plan = _shard(args=[None, jax.sharding.NamedSharding(_jax_mesh(), P(None, "model"))])
    assert repr(plan.arguments["w"]) == "[{}, {model}]"


def _decided_for(hardware: object) -> sw.Spmd:
    with sw.Session(hardware=hardware):
        return PLAN.partition()


PLAN = _shard()
SPMD = PLAN.partition()
HALVES = sw.parse_sharding("{devices=[2,1]0,1}", shape=(4, 3))


@pytest.mark.parametrize(
    ("attempt", "message", "remedy"),
    [
        (lambda: _shard(5), "not a mesh: 5", "sw.Mesh"),
        (lambda: _shard([("data", 2)]), "not a mesh", "sw.Mesh"),
        (lambda: sw.Mesh(data=True), "size True", "whole number"),
        (lambda: sw.Mesh(data=2.0), "size 2.0", "whole number"),  # type: ignore[arg-type]
        (lambda: sw.Mesh(data="2"), "size '2'", "whole number"),  # type: ignore[arg-type]
        (lambda: sw.Mesh(8), "axes of a mesh: 8", "Mesh(data=2"),  # type: ignore[arg-type]
        (lambda: sw.Mesh("data=2"), "axes of a mesh", "Mesh(data=2"),  # type: ignore[arg-type]
        (lambda: sw.Mesh(["data", "model"]), "axes of a mesh", "Mesh(data=2"),  # type: ignore[list-item]
        (lambda: sw.Mesh([(5, 2)]), "axes of a mesh", "Mesh(data=2"),  # type: ignore[list-item]
        (lambda: sw.Mesh(data=2, device_ids=[False, True]), "device ids", "every id"),
        (lambda: sw.Mesh(data=2, device_ids=[0.0, 1.0]), "device ids", "every id"),  # type: ignore[list-item]
        (lambda: _shard(args="data,-"), "not shardings of arguments", "args={"),
        (lambda: _shard(args=P("data")), "not shardings of arguments", "args={"),
        (lambda: _shard(args={True: "data,-"}), "no argument True", "index"),
        (lambda: _shard(args={1.0: "data,-"}), "no argument 1.0", "index"),
        (lambda: _shard(args=["data,-", None, "data,-"]), "no argument number 2", "index"),
        (lambda: _shard(args={"x": "data,-", 0: "-,data"}), "two shardings", "keep one"),
        (lambda: _shard(args={"x": None}), "not a sharding: None", "sw.P"),
        (lambda: _shard(args={"x": (1, 2)}), "not a sharding", "sw.P"),
        (
            lambda: _shard(sw.Mesh(data=8), {"x": jax.sharding.NamedSharding(_jax_mesh(), P("data"))}),
            "the sharding is on",
            "mesh of the program",
        ),
        (
            lambda: _shard(args={"x": jax.sharding.NamedSharding(_jax_mesh(), P(), memory_kind="pinned_host")}),
            "in the memory 'pinned_host'",
            "in_shardings",
        ),
        (lambda: PLAN.explain(5), "not the name of a value: 5", "give a name"),  # type: ignore[arg-type]
        (lambda: SPMD.write("local", None), "not a path: None", "pathlib"),  # type: ignore[arg-type]
        (lambda: SPMD.write("local", 5), "not a path: 5", "pathlib"),  # type: ignore[arg-type]
        (lambda: SPMD.inputs(5), "not inputs: 5", "by argument name"),  # type: ignore[arg-type]
        (lambda: SPMD.inputs([np.ones((16, 64), "f")]), "takes 2 arrays, 1 were given", "mapping"),
        (lambda: sw.hardware("h10"), "no hardware called 'h10'", "shardwright hardware"),
        (lambda: sw.hardware(5), "not a hardware: 5", "TOML"),  # type: ignore[arg-type]
        (lambda: _decided_for("h100"), "'h100' is no hardware", 'sw.hardware("h100")'),
        (lambda: sw.load(""), "the path is empty", "path of a module"),
        (lambda: sw.load(" "), "the path is empty", "path of a module"),
        (lambda: sw.load(None), "not a program: None", "path of a module"),  # type: ignore[arg-type]
        (lambda: sw.load("module {}"), "no file 'module {}'", "line break"),
        (lambda: sw.load(jax.jit(jnp.sin).lower(1.0)), "not a program", "as_text(debug_info"),  # type: ignore[arg-type]
        (lambda: sw.from_jax(5), "not a function: 5", "the function itself"),
        (lambda: sw.from_jax(jax.jit(jnp.sin).lower(1.0), 1.0), "no more arguments or options, 1 argument", "alone"),
        (lambda: sw.from_jax(jax.jit(jnp.sin).trace(1.0), donate_argnums=0), "options, donate_argnums given", "alone"),
        (lambda: sw.from_jax("nowhere"), "cannot read 'nowhere'", "path"),
        (lambda: sw.parse_sharding("hello", shape=(4, 3)), "not a sharding in any notation", "\n          mhlo"),
        (lambda: sw.parse_sharding(5, shape=(4, 3)), "not the text of a sharding", "str(sharding)"),  # type: ignore[arg-type]
        (lambda: sw.parse_sharding("P('x')", shape="4x3"), "not a shape: '4x3'", "(8, 16)"),  # type: ignore[arg-type]
        (lambda: sw.parse_sharding("P('x')", shape=(-4, 3)), "not a shape: (-4, 3)", "(8, 16)"),
        (lambda: sw.show("x", (4, 3)), "not a sharding: 'x'", "sw.parse_sharding"),  # type: ignore[arg-type]
        (lambda: sw.show(HALVES, "4x3"), "not a shape: '4x3'", "(8, 16)"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_clear_is_refused_with_what_to_do(attempt: Callable[[], Any], message: str, remedy: str) -> None:
    with pytest.raises(sw.ShardingError) as refused:
        attempt()
    assert message in refused.value.diagnostic.message
    assert remedy in refused.value.diagnostic.remedy
    assert all(len(line) < 240 for line in str(refused.value).splitlines())
