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
