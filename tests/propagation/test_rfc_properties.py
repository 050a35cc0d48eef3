"""What holds of the mesh RFC's completion whatever the program: names, notations and repetition change nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.convert import convert
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read, write
from shardwright.program import load
from shardwright.propagation.rfc.completion import complete
from tests.propagation.programs import random_program

_COUNT = 60
_RENAMED = {"w": "d", "x": "c", "y": "b", "z": "a"}


def _programs() -> Iterator[str]:
    for seed in range(_COUNT):
        text = re.sub(r"^ *sdy\.sharding_group .*\n", "", random_program(seed), flags=re.MULTILINE)
        if "manual_computation" not in text:
            yield text


def _completed(text: str) -> Graph | None:
    try:
        return complete(read(load_module(text)))
    except ShardingError as error:
        assert "contradict" in str(error)
        return None


def _layout(graph: Graph) -> list[str]:
    """The shardings of arguments, of what ops other than reshards make, and of results."""
    made = [value for op in graph.walk() if op.name != "sdy.reshard" for value in op.results]
    return [
        *(repr(graph.shardings[value]) for value in (*graph.main.block.arguments, *made)),
        *map(repr, graph.main.result_shardings),
    ]


def test_a_completed_program_is_complete() -> None:
    compared = 0
    for text in _programs():
        graph = _completed(text)
        if graph is not None:
            again = _completed(str(write(graph)))
            assert again is not None
            assert _layout(again) == _layout(graph), text
            compared += 1
    assert compared > _COUNT / 2


def test_names_of_axes_meshes_and_values_do_not_matter() -> None:
    compared = 0
    for text in _programs():
        graph = _completed(text)
        renamed = re.sub(r'"([wxyz])"', lambda name: f'"{_RENAMED[name[1]]}"', text)
        other = _completed(renamed.replace("@mesh", "@other").replace("%", "%n_"))
        assert (graph is None) == (other is None)
        if graph is not None and other is not None:
            expected = [re.sub(r"\b[wxyz]\b", lambda name: _RENAMED[name[0]], line) for line in _layout(graph)]
            assert _layout(other) == expected, text
            compared += 1
    assert compared > _COUNT / 2


_MODULE = """sdy.mesh @mesh = <["axis_0"=2, "axis_1"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"axis_0"}, {}]>}, %b: tensor<16x4xf32>,
                %c: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"axis_0"}, {"axis_1"}]>]>}
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.add %0, %c : tensor<8x4xf32>
  %2 = sdy.sharding_constraint %1 <@mesh, [{"axis_1"}, {}]> : tensor<8x4xf32>
  %3 = stablehlo.tanh %2 : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}"""


@pytest.mark.parametrize("notation", ["sdy", "mhlo", "shard", "mesh", "rfc"])
def test_every_notation_of_a_program_is_completed_alike(notation: str) -> None:
    """By hand: `%1` is split as its user wants, which leaves no axis of `%0`'s for its second dimension."""
    layout = _layout(complete(load(convert(_MODULE, to=notation)).graph))
    named = [line.replace("{a}", "{axis_0}").replace("{b}", "{axis_1}") for line in layout]  # mhlo has no names
    result = "[{axis_1}, {}]"
    arguments = ["[{axis_0}, {}]", "[{}, {axis_1}]", result]
    assert named == [*arguments, "[{axis_0}, {axis_1}]", result, result, result]
