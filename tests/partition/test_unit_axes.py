"""Explicit programs on meshes some of whose axes are of size 1: what names these alone is no communication."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition import materialize
from shardwright.partition.unit_axes import without_unit_axes
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case

_TEXT = """
sdy.mesh @mesh = <["x"={x}, "y"={y}, "z"={z}]>
func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x", "y"}}, {{"z"}}]>}},
                %b: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"z"}}, {{"y"}}]>}})
    -> (tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"z"}}, {{"y"}}]>}}) {{
  %0 = sdy.all_gather [{{"y"}}, {{}}] %a out_sharding=<@mesh, [{{"x"}}, {{"z"}}]> : tensor<8x8xf32>
  %1 = stablehlo.dot %0, %b {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{"x"}}, {{"y"}}], unreduced={{"z"}}>]>}}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = sdy.all_reduce {{"z"}} %1 out_sharding=<@mesh, [{{"x"}}, {{"y"}}]> : tensor<8x8xf32>
  %3 = sdy.all_to_all [{{"y"}}: 1->0] %2 out_sharding=<@mesh, [{{"x", "y"}}, {{}}]> : tensor<8x8xf32>
  %4 = sdy.all_gather [{{"x", "y"}}, {{}}] %3 out_sharding=<@mesh, [{{}}, {{}}]> : tensor<8x8xf32>
  %5 = sdy.all_slice [{{"z"}}, {{"y"}}] %4 out_sharding=<@mesh, [{{"z"}}, {{"y"}}]> : tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}}
"""
_SIZES = [(2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 1, 2), (1, 1, 1), (2, 2, 2)]


def test_they_compute_what_one_device_does() -> None:
    cases = [make_case(_TEXT.format(x=x, y=y, z=z), seed=0) for x, y, z in _SIZES]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, case in enumerate(cases):
        assert_equal(str(_SIZES[number]), case, *done[2 * number : 2 * number + 2])


@pytest.mark.parametrize(
    ("sizes", "collectives"),
    [
        ((2, 1, 1), ["all_gather"]),
        ((1, 2, 1), ["all_gather", "all_to_all", "all_gather", "all_slice"]),
        ((1, 1, 2), ["all_reduce", "all_slice"]),
        ((1, 1, 1), []),
    ],
)
def test_collectives_along_them_alone_are_gone(sizes: tuple[int, int, int], collectives: list[str]) -> None:
    text = _TEXT.format(**dict(zip("xyz", sizes, strict=True)))
    made = materialize(read(load_module(text))).graph
    names = [op.name.removeprefix("sdy.") for op in made.walk() if op.signature.step is not None]
    assert names == collectives


def test_a_program_with_a_manual_computation_keeps_them() -> None:
    text = """
    sdy.mesh @mesh = <["x"=2, "y"=1]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
        -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", "y"}]>] out_shardings=[<@mesh, [{"x", "y"}]>]
          manual_axes={"x", "y"} (%b: tensor<4xf32>) {
        %2 = stablehlo.negate %b : tensor<4xf32>
        sdy.return %2 : tensor<4xf32>
      } : (tensor<8xf32>) -> tensor<8xf32>
      %1 = sdy.all_gather [{"x", "y"}] %0 out_sharding=<@mesh, [{}]> : tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    """
    graph = read(load_module(text))
    assert without_unit_axes(graph) is graph


_CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>"
_ALONE = f"replica_groups = dense<[[0], [1], [2], [3]]> : tensor<4x1xi64>, {_CHANNEL}"
_GLOBAL = f"{_ALONE}, use_global_device_ids"
_SUM = """({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""
_OF_ONE_DEVICE = {
    "all_reduce": (_GLOBAL, _SUM),
    "all_gather": (f"all_gather_dim = 0 : i64, {_GLOBAL}", ""),
    "reduce_scatter": (f"scatter_dimension = 0 : i64, {_GLOBAL}", _SUM),
    "all_to_all": (
        f"split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 1 : i64, {_ALONE}",
        "",
    ),
    "collective_permute": (
        f"source_target_pairs = dense<[[0, 0], [1, 1], [2, 2], [3, 3]]> : tensor<4x2xi64>, {_CHANNEL}",
        "",
    ),
}


def _in_a_body(x: int, lines: str) -> str:
    """A program whose body, manual along x, leaves y of 4 devices free."""
    rows = 8 // x
    return f"""
    sdy.mesh @mesh = <["x"={x}, "y"=4]>
    func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}]>}}) -> tensor<8x8xf32> {{
      %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
          out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%b: tensor<{rows}x8xf32>) {{
        {lines.replace("LOCAL", f"tensor<{rows}x8xf32>")}
        sdy.return %r : tensor<{rows}x8xf32>
      }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }}
    """


@pytest.mark.parametrize("name", _OF_ONE_DEVICE)
def test_a_collective_of_one_device_in_a_body_along_them_gives_what_it_takes(name: str) -> None:
    attributes, body = _OF_ONE_DEVICE[name]
    text = _in_a_body(
        1,
        f"""%1 = "stablehlo.{name}"(%b) <{{{attributes}}}> {body} : (LOCAL) -> LOCAL
        %r = stablehlo.sine %1 : LOCAL""",
    )
    assert sw.load(text).plan().partition().verify().ok


@pytest.mark.parametrize("x", [1, 2])
def test_a_device_knows_its_number_in_a_body_that_leaves_axes_free(x: int) -> None:
    """Which of 4 devices along y it is makes no difference to the program."""
    text = _in_a_body(
        x,
        """%i = stablehlo.partition_id : tensor<ui32>
        %c = stablehlo.constant dense<4> : tensor<ui32>
        %k = stablehlo.divide %i, %c : tensor<ui32>
        %f = stablehlo.convert %k : (tensor<ui32>) -> tensor<f32>
        %g = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> LOCAL
        %r = stablehlo.add %b, %g : LOCAL""",
    )
    spmd = sw.load(text).plan().partition()
    assert "stablehlo.partition_id" in [op.name for op in spmd.local.walk()]
    assert spmd.verify().ok


def test_outside_of_bodies_a_device_has_no_number() -> None:
    text = """
    sdy.mesh @mesh = <["x"=1, "y"=4]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> tensor<ui32> {
      %0 = stablehlo.partition_id : tensor<ui32>
      return %0 : tensor<ui32>
    }
    """
    with pytest.raises(ShardingError, match=r"stablehlo\.partition_id cannot be partitioned"):
        sw.load(text).plan().partition()
