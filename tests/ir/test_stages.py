"""Stages are told by looking at a module once, when it is read, and carried from graph to graph from then on."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.ir.fast.read import read_text
from shardwright.notation.modules import READERS, read
from shardwright.program import Spmd
from shardwright.program.program import EXAMPLE
from shardwright.stage import STAGES, Stage


@pytest.fixture(scope="module")
def spmd() -> Spmd:
    return sw.load(EXAMPLE).shard(sw.Mesh(data=2, model=4), args={0: "data,model", 1: "model,-"}).partition()


def test_every_graph_says_its_stage(spmd: Spmd) -> None:
    graphs = (spmd.plan.program.graph, spmd.plan.annotated, spmd.plan.graph, spmd.explicit, spmd.local)
    assert [graph.stage.value for graph in graphs] == ["annotated", "annotated", *STAGES]


@pytest.mark.parametrize(
    ("stage", "read_as"),
    [("propagated", Stage.ANNOTATED), ("explicit", Stage.EXPLICIT), ("local", Stage.LOCAL)],
)
def test_a_module_that_is_read_again_is_at_the_stage_that_it_was_written_at(
    spmd: Spmd, stage: str, read_as: Stage
) -> None:
    text = spmd.module(stage)
    by_forms = read_text(text, READERS)
    assert read(load_module(text)).stage is read_as
    assert by_forms is not None
    assert by_forms[0].stage is read_as


CLUSTERED = """
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> attributes {mesh_cluster = @mesh0} {
  OP
  return %0 : tensor<8xf32>
}
"""
REDUCED = """%0 = "stablehlo.all_reduce"(%arg0) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8xf32>) -> tensor<8xf32>"""


def test_collectives_of_stablehlo_make_a_program_of_the_rfc_one_of_a_device() -> None:
    program = sw.load(CLUSTERED.replace("OP", REDUCED))
    assert program.graph.stage is Stage.LOCAL
    with pytest.raises(sw.ShardingError, match="is written for one device of a grid already"):
        program.shard(sw.Mesh(x=2), strategy="rfc")
    assert program.per_device().mesh.size == 2
    whole = sw.load(CLUSTERED.replace("OP", "%0 = stablehlo.tanh %arg0 : tensor<8xf32>"))
    assert whole.graph.stage is Stage.ANNOTATED
