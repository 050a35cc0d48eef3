"""Programs of one device with the collectives of the `shard` dialect: the same programs, as they are when read back."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.notation.conversion import as_generic
from shardwright.program import Plan
from tests.models.test_jax_features import ZOO

_ONE_LINK = sw.hardware("tpu_v5p").with_a_link()
_MATMUL = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>},
                %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def _redistributed(before: str, after: str, mesh: str = '"x"=2, "y"=4', type: str = "tensor<16x16xf32>") -> Plan:
    """A program that only brings its argument from one sharding to another."""
    lies, shall = (f"{type} {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}" for dims in (before, after))
    body = f"func.func @main(%a: {lies}) -> ({shall}) {{\n  return %a : {type}\n}}"
    return sw.load(f"sdy.mesh @mesh = <[{mesh}]>\n{body}").plan()


def _ops(text: str) -> list[str]:
    """The collectives and queries of a text, without what they read and where they stand."""
    lines = (line.strip() for line in text.splitlines())
    kept = (line for line in lines if " shard." in line or "stablehlo.collective" in line or "stablehlo.all_" in line)
    return [line.partition(" = ")[2].partition(" : ")[0] for line in kept]


def test_collectives_are_those_of_the_dialect_on_local_shapes() -> None:
    with sw.Session(hardware=_ONE_LINK):
        text = sw.load(_MATMUL).plan().partition().module("local", to="shard")
    assert 'shard.grid @mesh(shape = 2x4) {axis_names = ["x", "y"]}' in text
    assert _ops(text) == [
        "shard.all_reduce %0 on @mesh grid_axes = [0]",
        "shard.all_gather %1 on @mesh grid_axes = [1] gather_axis = 0",
    ]
    assert ": tensor<2x8xf32> -> tensor<8x8xf32>" in text
    assert "sdy." not in text


@pytest.mark.parametrize(
    ("before", "after", "op"),
    [
        ('{"y"}, {}', "{}, {}", "shard.all_gather %arg0 on @mesh grid_axes = [1] gather_axis = 0"),
        ('{"y", "x"}, {}', "{}, {}", "shard.all_gather %arg0 on @mesh grid_axes = [1, 0] gather_axis = 0"),
        ('{"y"}, {}', '{}, {"y"}', "shard.all_to_all %arg0 on @mesh grid_axes = [1] split_axis = 1 concat_axis = 0"),
    ],
)
def test_each_step_has_its_op(before: str, after: str, op: str) -> None:
    assert _ops(_redistributed(before, after).partition().module("local", to="shard")) == [op]


def test_a_device_that_slices_along_a_part_of_an_axis_asks_for_its_place() -> None:
    text = _redistributed("{}, {}", '{"y":(1)2}, {}').partition().module("local", to="shard")
    assert _ops(text) == ["shard.process_linear_index on @mesh"]
    assert "arith.index_castui %0 : index to i32" in text


def test_slices_along_whole_axes_are_the_dialects() -> None:
    text = _redistributed("{}, {}", '{"y", "x"}, {}').partition().module("local", to="shard")
    assert _ops(text) == ["shard.all_slice %arg0 on @mesh grid_axes = [1, 0] slice_axis = 0"]
    text = _redistributed("{}, {}", '{"x"}, {"y"}').partition().module("local", to="shard")
    assert _ops(text) == [
        "shard.all_slice %arg0 on @mesh grid_axes = [0] slice_axis = 0",
        "shard.all_slice %0 on @mesh grid_axes = [1] slice_axis = 1",
    ]
    spmd = _redistributed("{}, {}", '{"y", "x"}, {}').partition()
    assert "shard." not in spmd.module()  # XLA has it as index arithmetic


@pytest.mark.parametrize("after", ['{"y", "x"}, {}', '{"x"}, {"y"}', '{}, {"y", "x"}'])
def test_slices_of_the_dialect_are_the_parts_that_devices_hold(after: str) -> None:
    whole = np.arange(256, dtype=np.float32).reshape(16, 16)
    plan = _redistributed("{}, {}", after)
    spmd = plan.partition()
    again = sw.load(spmd.module("local", to="shard")).per_device()
    (parts,) = again.run({"a": np.stack([whole] * 8)}).values()
    (sharding,) = (s for s in spmd.explicit.main.result_shardings if s is not None)
    for device, part in enumerate(parts):
        np.testing.assert_array_equal(part, whole[sharding.device_slice((16, 16), device)])


def _rolled(rows: int) -> str:
    """A tensor of 16 rows over four devices, rolled: what is at its end comes to its front."""
    kept = 16 - rows
    return f"""
        sdy.mesh @mesh = <["x"=2, "y"=4]>
        func.func @main(%a: tensor<16x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}})
            -> (tensor<16x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) {{
          %0 = stablehlo.slice %a [{kept}:16, 0:4] : (tensor<16x4xf32>) -> tensor<{rows}x4xf32>
          %1 = stablehlo.slice %a [0:{kept}, 0:4] : (tensor<16x4xf32>) -> tensor<{kept}x4xf32>
          %2 = stablehlo.concatenate %0, %1, dim = 0
              : (tensor<{rows}x4xf32>, tensor<{kept}x4xf32>) -> tensor<16x4xf32>
          return %2 : tensor<16x4xf32>
        }}"""


def test_what_every_device_sends_as_far_is_a_shift() -> None:
    text = sw.load(_rolled(1)).plan().partition().module("local", to="shard")
    (shift,) = (op for op in _ops(text) if "shard.shift" in op)
    assert shift.endswith("on @mesh grid_axes = [1] shift_axis = 1 offset = 1 rotate")


def test_what_the_dialect_has_no_words_for_stays_as_it_is() -> None:
    parts = _redistributed('{"y":(1)2}, {}', "{}, {}").partition().module("local", to="shard")
    assert [op.partition('"(')[0] for op in _ops(parts)] == ['"stablehlo.all_gather']
    moved = _redistributed('{"x"}, {"y"}', '{"y":(1)2}, {"x", "y":(2)2}').partition()
    assert moved.traffic.total.static
    assert "stablehlo.collective_permute" in moved.module("local", to="shard")


@pytest.mark.parametrize("name", sorted(ZOO))
def test_what_is_read_back_communicates_the_same(name: str) -> None:
    function, arguments, args = ZOO[name]
    spmd = sw.from_jax(function, *arguments).shard(sw.Mesh(data=2, model=4), args=args).partition()
    again = sw.load(spmd.module("local", to="shard")).per_device()
    assert again.traffic.total == spmd.traffic.total
    assert again.local.arguments == spmd.local.arguments
    assert [*again.local.results.values()] == [*spmd.local.results.values()]


@pytest.mark.parametrize("text", [_MATMUL, _rolled(1), _rolled(5)], ids=["matmul", "rolled", "rolled on"])
@pytest.mark.parametrize("arguments", ["split", "whole"])
def test_what_is_read_back_computes_the_same(text: str, arguments: str) -> None:
    spmd = sw.load(text).plan().partition(arguments=arguments)
    ours, theirs = (sw.load(spmd.module("local", to=to)).per_device().run(seed=3) for to in ("sdy", "shard"))
    assert ours.keys() == theirs.keys()
    for name, rows in ours.items():
        assert np.array_equal(rows, theirs[name])


def test_the_older_name_of_the_dialect() -> None:
    with sw.Session(hardware=_ONE_LINK):
        text = sw.load(_MATMUL).plan().partition().module("local", to="mesh")
    assert "mesh.all_gather %1 on @mesh mesh_axes = [1] gather_axis = 0" in text


def test_a_program_of_one_device_is_written_so_too() -> None:
    text = sw.load(_MATMUL).plan().partition().module("local", to="shard")
    assert _ops(sw.load(text).per_device().module(to="shard")) == _ops(text)


def test_stages_at_global_shapes_are_written_as_convert_writes_them() -> None:
    spmd = sw.load(_MATMUL).plan().partition()
    for stage in ("propagated", "explicit"):
        assert spmd.module(stage, to="shard") == sw.convert(spmd.module(stage), "shard")


def test_a_notation_without_collectives_of_one_device_is_refused() -> None:
    with pytest.raises(sw.ShardingError, match="cannot be written as 'mhlo'") as raised:
        sw.load(_MATMUL).plan().partition().module("local", to="mhlo")
    assert raised.value.diagnostic.remedy.startswith("one of sdy, shard, mesh")


def test_what_stays_stablehlo_names_devices_not_axes_of_a_mesh_that_is_a_grid_now() -> None:
    text = _redistributed('{"x":(1)2}, {}', "{}, {}", mesh='"x"=4').partition().module("local", to="shard")
    assert "replica_groups = dense<[[0, 2], [1, 3]]>" in text
    assert "replica_group_mesh_axes" not in text


MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
"""Upstream's tool, of LLVM 21 or 22, which have the dialect: Debian's `mlir-22-tools`."""


@pytest.mark.oracle
@pytest.mark.skipif(MLIR_OPT is None, reason="no mlir-opt-22 here: Debian's mlir-22-tools has it")
@pytest.mark.parametrize("name", ["argmax", "ints", "remat", "reshapes", "scan", "uneven"])
def test_upstreams_verifiers_take_what_is_written(name: str) -> None:
    """In the generic form, since StableHLO is unknown there; LLVM 22 still has the dimension's earlier name."""
    function, arguments, args = ZOO[name]
    spmd = sw.from_jax(function, *arguments).shard(sw.Mesh(data=2, model=4), args=args).partition()
    module = load_module(as_generic(spmd.module("local", to="shard")))
    text = str(module.operation.get_asm(print_generic_op_form=True))
    text = re.sub(r"#shard\.partial<(\w+)>", r"#shard<partial \1>", text).replace("scatter_dim =", "scatter_axis =")
    assert '"shard.' in text
    command = [str(MLIR_OPT), "-allow-unregistered-dialect"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
