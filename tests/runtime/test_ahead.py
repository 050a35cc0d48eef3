"""Programs for devices that are not here, and for partitioners that cannot be skipped."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.cost.hardware.xla_files import figures_from
from shardwright.errors import ShardingError
from shardwright.runtime import own_fills, xla
from shardwright.runtime.enclosed import enclose
from shardwright.runtime.gpus import GPUS, description_of
from shardwright.runtime.jobs import Job
from tests.frontends.devices import eight_devices

eight_devices()

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS_TPU = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="libtpu is not installed, which compiles for TPUs"
)

NEEDS_PLUGIN = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda12_plugin") is None, reason="JAX's plugin for GPUs is not installed"
)

LOOPS = """
sdy.mesh @m = <["x"=4, "y"=2]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {"y"}]>},
                %n: tensor<i32>) -> (tensor<8x16xf32>, tensor<16x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<8x16xf32>
  %0:3 = stablehlo.while(%i = %zero, %a = %x, %h = %half) : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32> cond {
    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %g = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1]
        : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>
    %b = stablehlo.dot_general %g, %a, contracting_dims = [1] x [0]
        : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %d = stablehlo.tanh %b : tensor<8x16xf32>
    %c = stablehlo.add %d, %h : tensor<8x16xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %c, %h : tensor<i32>, tensor<8x16xf32>, tensor<8x16xf32>
  }
  %1 = stablehlo.transpose %0#1, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %2:2 = "stablehlo.sort"(%1, %1) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<f32>, %s: tensor<f32>):
    %t = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }) : (tensor<16x8xf32>, tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
  return %0#1, %2#1 : tensor<8x16xf32>, tensor<16x8xf32>
}"""
SLICED = """
sdy.mesh @m = <["x"=8]>
func.func @main(%x: tensor<16x6xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}, %k: tensor<3x3x1x1xf32>)
    -> (tensor<14x6xf32>, tensor<1x16x6x1xf32>) {
  %0 = stablehlo.slice %x [1:15, 0:6] : (tensor<16x6xf32>) -> tensor<14x6xf32>
  %1 = stablehlo.reshape %x : (tensor<16x6xf32>) -> tensor<1x16x6x1xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x16x6x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x16x6x1xf32>
  return %0, %2 : tensor<14x6xf32>, tensor<1x16x6x1xf32>
}"""
ELSEWHERE = LOOPS.replace('<["x"=4, "y"=2]>', '<["x"=4, "y"=2], device_ids=[7, 1, 6, 0, 5, 3, 4, 2]>')
GATHERED = """
sdy.mesh @m = <["x"=8]>
func.func @main(%x: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>},
                %v: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>},
                %w: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>})
    -> (tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) {
  %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0]
      : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = stablehlo.tanh %0 : tensor<16x16xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
      : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return %2 : tensor<16x32xf32>
}"""
KERNEL = """
sdy.mesh @m = <["x"=8]>
func.func @main(%x: tensor<16x8x2x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}, {}, {}]>},
                %g: tensor<16x16x4x4xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}, {}, {}]>})
    -> tensor<2x2x8x4xf32> {
  %0 = stablehlo.convolution(%x, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f],
      window = {pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<16x8x2x8xf32>, tensor<16x16x4x4xf32>) -> tensor<2x2x8x4xf32>
  return %0 : tensor<2x2x8x4xf32>
}"""
LARGEST = """
sdy.mesh @m = <["x"=8]>
func.func @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>})
    -> (tensor<16xf32>, tensor<16xi32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %i = stablehlo.iota dim = 1 : tensor<16x32xi32>
  %0:2 = stablehlo.reduce(%x init: %least), (%i init: %zero) across dimensions = [1]
      : (tensor<16x32xf32>, tensor<16x32xi32>, tensor<f32>, tensor<i32>) -> (tensor<16xf32>, tensor<16xi32>)
      reducer(%a: tensor<f32>, %b: tensor<f32>) (%j: tensor<i32>, %k: tensor<i32>) {
    %1 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
    %3 = stablehlo.select %1, %j, %k : tensor<i1>, tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1 : tensor<16xf32>, tensor<16xi32>
}"""
PROGRAMS = {
    "gathered together": GATHERED,
    "largest and where": LARGEST,
    "gradient of a kernel": KERNEL,
    "loops": LOOPS,
    "other order": ELSEWHERE,
    "slices": SLICED,
    **{name: str(EXAMPLES / f"{name}.mlir") for name in ("mlp", "decode")},
}


@pytest.fixture
def flags_of_tpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA for TPUs ends the process at flags of the one for CPUs, which has read its own by now."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)


def results(spmd: Any) -> list[bytes]:
    inputs = spmd.inputs({"n": np.int32(3)}) if "n" in spmd.source.graph.arguments else spmd.inputs()
    types = tuple(spmd.source.graph.types[value] for value in spmd.source.graph.main.block.terminator.operands)
    layouts = tuple(spmd.in_shardings), tuple(spmd.out_shardings)
    outcome = xla.run_job(Job(spmd.module("local"), tuple(inputs), spmd.mesh, *layouts, types))
    assert not outcome.differences
    return [np.asarray(array).tobytes() for array in outcome.outputs]


@pytest.mark.parametrize("optimize", ["off", "all"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_partitioner_leaves_what_is_enclosed_alone(name: str, optimize: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on devices whose partitioner cannot be skipped: the same results, bit for bit."""
    spmd = sw.load(PROGRAMS[name]).plan().partition(optimize=optimize)
    skipped = results(spmd)
    enclosed: list[int] = []

    def counted(module: Any, main: Any, devices: int) -> None:
        enclosed.append(devices)
        enclose(module, main, devices)

    monkeypatch.setattr(xla, "enclose", counted)
    monkeypatch.setattr(xla, "_SKIPPING", ())
    assert results(spmd) == skipped
    assert enclosed == [spmd.mesh.size]


@NEEDS_TPU
@pytest.mark.xdist_group("libtpu")  # one process at a time may have it
@pytest.mark.usefixtures("flags_of_tpus")
@pytest.mark.parametrize("optimize", ["off", "all"])
@pytest.mark.parametrize("name", [*PROGRAMS, "gpt2", "gpt32_scan"])
def test_xla_for_tpus_takes_programs_without_a_tpu(name: str, optimize: Any, tmp_path: Path) -> None:
    spmd = sw.load(PROGRAMS.get(name, str(EXAMPLES / f"{name}.mlir"))).plan().partition(optimize=optimize)
    ahead = sw.load_exported(spmd.export(tmp_path / "program.sw", platforms=["tpu"])).compile_for("v5e:2x4")
    assert (ahead.platform, ahead.kind) == ("tpu", "TPU v5 lite")
    assert ahead.arguments >= spmd.memory.arguments
    assert ahead.code > 0


@NEEDS_PLUGIN
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", ["gathered together", "largest and where", "gradient of a kernel", "gpt2"])
def test_xla_for_gpus_takes_programs_without_a_gpu(name: str, gpu: str, tmp_path: Path) -> None:
    spmd = sw.load(PROGRAMS.get(name, str(EXAMPLES / f"{name}.mlir"))).plan().partition(optimize="all")
    exported = sw.load_exported(spmd.export(tmp_path / "program.sw", platforms=["cuda"]))
    ahead = exported.compile_for("1x1x8", "gpu", gpu)
    assert (ahead.platform, ahead.kind) == ("gpu", GPUS[gpu].name)
    assert ahead.arguments == spmd.memory.arguments
    with pytest.raises(ShardingError, match="has 8 devices, '1x1x4' has 4"):
        exported.compile_for("1x1x4", "gpu", gpu)


@NEEDS_PLUGIN
def test_what_loops_begin_with_is_not_there_from_the_beginning_on_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight loops, one after the other, each of which stacks a quarter of a GiB: XLA by itself holds all of that."""

    def layer(x: Any, w: Any) -> Any:
        def turn(carried: Any, row: Any) -> tuple[Any, Any]:
            new = jnp.tanh(carried @ w + row)
            return new, new

        rows = lax.scan(turn, jnp.zeros_like(x), jnp.broadcast_to(x, (256, *x.shape)))[1]
        return jnp.cumsum(rows, 0)[-1]

    def function(x: Any, ws: Any) -> Any:
        for w in ws:
            x = layer(x, w)
        return x

    plan = sw.from_jax(
        function, jax.ShapeDtypeStruct((2048, 1024), "float32"), [jax.ShapeDtypeStruct((1024,) * 2, "float32")] * 8
    ).shard(sw.Mesh(x=8), {"x": "x,-"})
    exported = sw.load_exported(plan.partition().export(tmp_path / "program.sw", platforms=["cuda"]))
    own = exported.compile_for("1x1x8", "gpu", "h100")
    monkeypatch.setattr(own_fills, "_MUCH", math.inf)
    assert own.temporary < 0.5 * exported.compile_for("1x1x8", "gpu", "h100").temporary


@pytest.mark.parametrize("gpu", GPUS)
def test_a_gpu_is_described_as_xla_does_it(gpu: str) -> None:
    """Its memory and how fast that is are those of the data sheet, which has them from elsewhere."""
    figures = figures_from(description_of(gpu), gpu).figures
    hardware = sw.hardware(gpu)
    assert hardware.memory_bytes is not None
    assert figures["memory"].value == pytest.approx(hardware.memory_bytes, rel=0.1)
    assert hardware.memory_bytes_per_second is not None
    assert figures["memory_traffic"].value == pytest.approx(hardware.memory_bytes_per_second, rel=0.1)


def test_a_gpu_has_a_name_or_a_file(tmp_path: Path) -> None:
    file, other = tmp_path / "gpu.txtpb", tmp_path / "other.txtpb"
    file.write_text(description_of("h200"))
    assert description_of(str(file)) == description_of("h200")
    other.write_text("entries { }")
    for gpu, words in (("h101", "no GPU is called 'h101'"), (str(other), "no description of a GPU")):
        with pytest.raises(ShardingError, match=words) as raised:
            description_of(gpu)
        assert "GpuTargetConfigProto" in raised.value.diagnostic.remedy


@NEEDS_TPU
@pytest.mark.xdist_group("libtpu")
@pytest.mark.usefixtures("flags_of_tpus")
def test_a_topology_must_be_known_and_of_as_many_devices(tmp_path: Path) -> None:
    exported = sw.load_exported(sw.load(LOOPS).plan().partition().export(tmp_path / "program.sw"))
    with pytest.raises(ShardingError, match="has 8 devices, 'v5e:2x2' has 4"):
        exported.compile_for("v5e:2x2")
    with pytest.raises(ShardingError, match="cannot compile for tpu 'v99:2x4' here"):
        exported.compile_for("v99:2x4")


def test_without_xla_for_the_devices_the_remedy_says_what_to_install(tmp_path: Path) -> None:
    exported = sw.load_exported(sw.load(LOOPS).plan().partition().export(tmp_path / "program.sw"))
    for platform, library in (
        ("cuda", "jax-cuda12-plugin"),
        ("gpu", "say which"),
        ("rocm", "XLA for it"),
        ("tpu", "libtpu"),
    ):
        if platform == "tpu" and importlib.util.find_spec("libtpu") is not None:
            continue
        with pytest.raises(ShardingError, match=f"cannot compile for {platform} 'v5e:2x4' here") as raised:
            exported.compile_for("v5e:2x4", platform)
        assert library in raised.value.diagnostic.remedy
    assert jax.devices()[0].platform == "cpu"
