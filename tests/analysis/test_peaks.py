"""The peak of programs in pieces is that of the program as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardwright as sw
from shardwright.analysis.alive import donated_arguments
from shardwright.analysis.memory import memory
from shardwright.analysis.peaks import Peaks
from shardwright.ir.graph import Graph
from tests.straight import straight_program

EXAMPLES = Path(__file__).parents[2] / "examples"


def in_pieces(graph: Graph) -> int:
    """The peak of a program without regions, told op by op."""
    block, peaks = graph.main.block, Peaks()
    told = [one for op in block.ops if (one := peaks.number(op)) is not None]
    arguments = [(value, graph.types[value].bytes) for value in block.arguments]
    return peaks.peak(arguments, donated_arguments(graph), told, len(graph.types))


@pytest.mark.parametrize("name", ["mlp", "gpt2"])
def test_it_is_that_of_examples(name: str) -> None:
    local = sw.load(EXAMPLES / f"{name}.mlir").plan().partition().local
    assert in_pieces(local) == memory(local).peak


def test_it_is_that_of_random_programs() -> None:
    for seed in range(40):
        local = sw.load(straight_program(seed).replace("f32> {sdy", "f32> {jax.buffer_donor = true, sdy")).plan()
        graph = local.partition().local
        assert in_pieces(graph) == memory(graph).peak, seed


def test_what_is_read_last_is_written_into() -> None:
    """One buffer for all that is computed, beside the argument, and a copy of that, as it is returned."""
    text = """
    func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %0 = stablehlo.tanh %x : tensor<8xf32>
      %1 = stablehlo.negate %0 : tensor<8xf32>
      %2 = stablehlo.add %1, %1 : tensor<8xf32>
      return %2, %x : tensor<8xf32>, tensor<8xf32>
    }
    """
    graph = sw.load(text).graph
    assert in_pieces(graph) == memory(graph).peak == 96
