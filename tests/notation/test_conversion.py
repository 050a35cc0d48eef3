"""Modules from any notation to any other: what every argument, result and constraint holds stays the same."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.notation.conversion import convert_module, open_module
from shardwright.notation.module_notations import module_notation_names, notation_of
from shardwright.notation.modules import read
from shardwright.notation.notation import mentions
from shardwright.sharding import TensorSharding, replicated

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("sdy", "shard", "mesh", "rfc", "mhlo")

WALKTHROUGH = """
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @mlp(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> tensor<2x4x8xf32>
    attributes {mesh_cluster = @mesh0} {
  %0 = mesh.annotate %arg0 {required = true, sharding = [[], [], [0]]} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  %1 = "mhlo.dot_general"(%0, %arg1) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2],
    rhs_contracting_dimensions = [0]>} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
  %2 = mhlo.constant dense<0.0> : tensor<2x4x32xf32>
  %3 = mhlo.maximum %1, %2 : tensor<2x4x32xf32>
  %4 = "mhlo.dot_general"(%3, %arg2) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [2],
    rhs_contracting_dimensions = [0]>} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
  %6 = mesh.annotate %4 {as_result = false, required = true, sharding = [[], [], [0]]} : tensor<2x4x8xf32>
  return %6 : tensor<2x4x8xf32>
}
"""


def graph_of(text: str) -> Graph:
    return read(open_module(text).module)


def held(sharding: TensorSharding, shape: tuple[int, ...]) -> list[tuple[int, tuple[slice, ...]]]:
    mesh = sharding.mesh
    return sorted((mesh.device_id(at), sharding.device_slice(shape, at)) for at in range(mesh.size))


def layouts(graph: Graph) -> tuple[object, ...]:
    """What every device holds of each argument, and of what is said anywhere else: of constraints and results.

    A constraint that is only returned may become the sharding of the result, and the other way round.
    """
    mesh = next(mesh for mesh in graph.meshes.values() if mesh.axes)
    arguments = [
        held(graph.shardings[value] or replicated(mesh, graph.types[value].rank), graph.types[value].dims)
        for value in graph.main.block.arguments
    ]
    stated = [(graph.shardings[op.results[0]], op.results[0]) for op in graph.walk() if op.name == _CONSTRAINT]
    stated += zip(graph.main.result_shardings, graph.main.block.terminator.operands, strict=True)
    elsewhere = [held(sharding, graph.types[value].dims) for sharding, value in stated if sharding is not None]
    return arguments, sorted(set(map(repr, elsewhere)))


_CONSTRAINT = "sdy.sharding_constraint"


@pytest.mark.parametrize("example", ["mlp", "gpt2", "decode"])
@pytest.mark.parametrize(("there", "back"), list(itertools.permutations(NAMES, 2)))
def test_what_devices_hold_survives_every_pair_of_notations(example: str, there: str, back: str) -> None:
    text = (EXAMPLES / f"{example}.mlir").read_text()
    first = convert_module(text, there)
    second = convert_module(first, back)
    assert notation_of(first).name in (there, "shard")  # `mesh` and `shard` are told apart by what is written
    assert layouts(graph_of(second)) == layouts(graph_of(text))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_converted_is_canonical(name: str) -> None:
    first = convert_module((EXAMPLES / "gpt2.mlir").read_text(), name)
    assert convert_module(first, name) == first


@pytest.mark.parametrize("name", NAMES)
def test_the_walkthrough_of_the_rfc_runs_in_every_notation(name: str) -> None:
    text = convert_module(WALKTHROUGH, name)
    spmd = sw.load(text).plan().partition()
    assert spmd.plan.mesh.size == 2
    assert spmd.plan.arguments["arg0"].local_shape((2, 4, 8)) == (2, 4, 4)
    assert spmd.verify().ok


def test_names_of_axes_and_arguments_survive() -> None:
    text = (EXAMPLES / "mlp.mlir").read_text()
    for name in NAMES[:-1]:
        graph = graph_of(convert_module(text, name))
        assert next(iter(graph.meshes.values())).sizes == {"x": 2, "y": 2, "z": 2}
        assert graph.main.argument_names == ["x", "w_in", "w_out"]


def test_a_notation_is_told_by_ops_and_not_by_comments_or_strings() -> None:
    text = '// shard.grid @g(shape = 2)\nmodule attributes {note = "sdy.mesh"} { // sdy.mesh @m\n}\n'
    assert notation_of(text).name == "sdy"  # what says nothing is sdy already
    assert not mentions(re.compile(r"sdy\.mesh"), text)
    assert mentions(re.compile(r"sdy\.mesh"), text + "sdy.mesh @m = <[]>\n")


def test_an_unknown_notation_is_refused_with_those_there_are() -> None:
    with pytest.raises(sw.ShardingError, match="unknown notation") as caught:
        convert_module("module {}", "gspmd")
    assert all(name in caught.value.diagnostic.remedy for name in module_notation_names())


@pytest.mark.parametrize("name", ["shard", "rfc", "mhlo"])
def test_what_cannot_be_said_is_refused_at_its_line(name: str) -> None:
    text = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = sdy.propagation_barrier %0 allowed_direction=FORWARD : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""
    with pytest.raises(sw.ShardingError) as caught:
        sw.convert(text, name)
    diagnostic = caught.value.diagnostic
    assert "barrier" in f"{diagnostic.message} {diagnostic.op}"
    assert diagnostic.location == "-:5" or diagnostic.location.startswith("-:5:")
    assert diagnostic.remedy


def test_what_could_not_be_read_again_is_refused_at_its_line() -> None:
    text = """func.func @main(%a: tensor<8x8xindex>) {
  sdy.sharding_group %a group_id=3 : tensor<8x8xindex>
  return
}"""
    with pytest.raises(ShardingError, match="the module cannot be written so") as raised:
        convert_module(text, "mhlo", "step.mlir")
    assert raised.value.diagnostic.location == "step.mlir:2:3"
    assert "stablehlo.custom_call" in raised.value.diagnostic.cause
