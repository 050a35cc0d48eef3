"""Modules with `mhlo.sharding` against JAX, which lowers to them and to `sdy`, and XLA, which runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from shardwright.frontends.load import Source
from shardwright.ir.context import load_module
from shardwright.notation import modules
from shardwright.program import Program
from tests.jaxlib_differences import applies
from tests.notation.test_hlo_modules import exported, imported
from tests.notation.test_hlo_modules_round_trips import assert_alike, held

WORKER = """
import json, sys
import numpy as np
from functools import partial
import jax, jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding as NS, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
turned = Mesh(np.array(jax.devices())[[3, 1, 2, 0, 7, 5, 6, 4]].reshape(2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
a, b = jnp.zeros((8, 16)), jnp.zeros((16, 4))
keep = jax.lax.with_sharding_constraint

def constrained(a, b):
    c = keep(a @ b, NS(mesh, P("x", None)))
    return keep(jnp.tanh(c), NS(mesh, P("x", P.UNCONSTRAINED))), jnp.sum(c)

@partial(jax.shard_map, mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None))
def mapped(a, b):
    return jax.lax.psum(a @ b, "y")

@partial(jax.shard_map, mesh=mesh, in_specs=(P("x", None), P()), out_specs=(P("x", None), P("x")), axis_names={"x"})
def partly(a, b):
    c = a @ b
    return c, c.sum()[None]

@partial(jax.shard_map, mesh=mesh, in_specs=(), out_specs=P(("x", "y")))
def indices():
    return jax.lax.axis_index("y")[None]

def scanned(a, b):
    def body(c, x):
        return keep(jnp.tanh(c) * x, NS(mesh, P("x", "y"))), c.sum()
    return jax.lax.scan(body, a, jnp.arange(3.0))

def both(a, b):
    return mapped(mapped(a, b) @ b.T, b), mapped(a * 2, b), a.sum()

def inner_scan(a, b):
    return jax.lax.scan(lambda c, x: (mapped(c, b) @ b.T, c.sum()), a, jnp.arange(3.0))

@partial(jax.shard_map, in_specs=P("y"), out_specs=P("y"), axis_names={"y"})
def inner(a):
    return a * jax.lax.psum(a.sum(), "y")

@partial(jax.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
def nested(a):
    return inner(a) + 1

def row(a, b):
    return a * 2, b.sum(0)

PROGRAMS = {
    "constrained": jax.jit(constrained, in_shardings=(NS(mesh, P("x", "y")), None), out_shardings=(NS(mesh, P(("y", "x"))), None)),
    "mapped": jax.jit(lambda a, b: mapped(a, b) * 2, in_shardings=(NS(mesh, P("x")), NS(mesh, P()))),
    "partly": jax.jit(lambda a, b: partly(a, b)),
    "indices": jax.jit(lambda a, b: (indices(), a)),
    "scanned": jax.jit(scanned, in_shardings=(NS(mesh, P("x")), NS(mesh, P()))),
    "both": jax.jit(both, in_shardings=(NS(mesh, P(None, "y")), NS(mesh, P("y")))),
    "inner_scan": jax.jit(inner_scan),
    "nested": jax.jit(lambda a, b: (nested(a), b)),
    "turned": jax.jit(row, in_shardings=(NS(turned, P("x", "y")), NS(turned, P("y"))), out_shardings=(NS(turned, P("y")), NS(turned, P("x")))),
}

def lower(shardy):
    jax.config.update("jax_use_shardy_partitioner", shardy)
    jax.clear_caches()
    return {name: program.lower(a, b).as_text() for name, program in PROGRAMS.items()}

def run(text, arguments, shardings):
    from jax._src.lib import _jax, xla_client as xc
    from jax._src.sharding_impls import GSPMDSharding
    options = xc.CompileOptions()
    build = options.executable_build_options
    for target in (options, build):
        target.num_replicas, target.num_partitions = 1, 8
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = False
    build.allow_spmd_sharding_propagation_to_output = [True]
    options.device_assignment = xc.DeviceAssignment.create(np.arange(8, dtype=np.int32)[None])
    devices = jax.devices()
    program = devices[0].client.compile_and_load(text, _jax.DeviceList(tuple(devices)), options)
    values = []
    for value, said in zip(arguments, shardings):
        value = np.array(value, dtype=np.float32)
        place = GSPMDSharding(devices, xc.HloSharding.from_string(said))
        values.append(jax.make_array_from_callback(value.shape, place, lambda index, value=value: value[index]))
    results = program.execute_sharded(values).disassemble_into_single_device_arrays()
    return [[np.asarray(piece).tolist() for piece in pieces] for pieces in results]

ask = json.load(sys.stdin)
if ask["what"] == "lower":
    print(json.dumps([lower(False), lower(True)]))
else:
    print(json.dumps([run(*job) for job in ask["jobs"]]))
"""


def runs_right(text: str) -> bool:
    """Whether the program, sharded as it says, computes what it does on one device."""
    program = Program(Source("-", text, modules.read(load_module(text))))
    return program.plan().partition().verify().ok


def ask_jax(question: dict[str, Any]) -> Any:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        env=environment,
        timeout=280,
        check=False,
    )
    for missing in ("ImportError", "ModuleNotFoundError", "AttributeError", "Unrecognized config option"):
        if missing in done.stderr:
            pytest.skip(f"this jax cannot be asked: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@lru_cache
def lowered() -> tuple[dict[str, str], dict[str, str]]:
    """JAX's programs with `mhlo.sharding`, and the same with `sdy`."""
    partitioner, shardy = ask_jax({"what": "lower"})
    return partitioner, shardy


def boundary(text: str) -> list[object]:
    graph = modules.read(load_module(text))
    values = [(value, graph.shardings[value]) for value in graph.main.block.arguments]
    values += zip(graph.main.block.terminator.operands, graph.main.result_shardings, strict=True)
    return [held(sharding, graph.types[value].dims) for value, sharding in values]


@pytest.mark.oracle
def test_what_jax_lowers_for_xla_is_what_it_lowers_for_shardy(record_property: Callable[[str, object], None]) -> None:
    partitioner, shardy = lowered()
    assert all("mhlo.sharding" in text for text in partitioner.values())
    for name, text in partitioner.items():
        assert boundary(imported(text)) == boundary(shardy[name]), name
        if name != "nested" or not applies("nested"):
            assert_alike(modules.read(load_module(imported(text))), modules.read(load_module(shardy[name])))
    record_property("summary", f"mhlo modules: {len(shardy)} programs of JAX import as JAX lowers them for Shardy")


@pytest.mark.oracle
def test_export_writes_what_jax_writes() -> None:
    partitioner, shardy = lowered()
    for name, text in shardy.items():
        assert (shardings_in(exported(text)) == shardings_in(partitioner[name])) != (
            name == "nested" and applies("nested")
        ), name
        assert exported(imported(partitioner[name])).strip() == partitioner[name].strip(), name


def shardings_in(text: str) -> list[str]:
    return sorted(re.findall(r'(?:custom_call @\S+?\(|backend_config = "[^"]*", )?mhlo.sharding = "[^"]*"', text))


@pytest.mark.oracle
def test_an_imported_program_runs_as_the_unsharded_one() -> None:
    partitioner, _ = lowered()
    for name in ("constrained", "scanned", "turned"):
        assert runs_right(imported(partitioner[name])), name


SDY = """
sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[5, 0, 3, 6, 1, 4, 7, 2]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}, %b: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)2}, {}]>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y":(2)2}, {"y":(1)2}]>}, tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"y"}, {?}]> : tensor<8x4xf32>
  %2 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%c: tensor<4x4xf32>) {
    %4 = stablehlo.add %c, %c : tensor<4x4xf32>
    sdy.return %4 : tensor<4x4xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.tanh %1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x4xf32>
  sdy.sharding_group %0 group_id=1 : tensor<8x4xf32>
  sdy.sharding_group %1 group_id=1 : tensor<8x4xf32>
  return %3, %2 : tensor<8x4xf32>, tensor<8x16xf32>
}
"""


@pytest.mark.oracle
def test_xla_gives_every_device_the_piece_that_the_model_says() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 16)).astype(np.float32), rng.normal(size=(16, 4)).astype(np.float32)
    graph = modules.read(load_module(SDY))
    jobs = []
    for version in ("V1", "V2", "named"):
        text = exported(SDY, version)
        shardings = re.findall(r'%arg\d: \S+ \{mhlo.sharding = "([^"]*)"', text)
        assert len(shardings) == 2
        jobs.append([text, [a.tolist(), b.tolist()], shardings])
    for results in ask_jax({"what": "run", "jobs": jobs}):
        for whole, pieces, sharding in zip((np.tanh(a @ b), a + a), results, graph.main.result_shardings, strict=True):
            assert sharding is not None
            for position in range(8):
                piece = np.array(pieces[sharding.mesh.device_id(position)])
                np.testing.assert_allclose(piece, whole[sharding.device_slice(whole.shape, position)], rtol=1e-5)
