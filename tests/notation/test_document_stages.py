"""What documents 002 and 003 say that a program becomes, stage by stage, op by op; and what both texts compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import shardwright as sw
from shardwright.notation.conversion import convert_module
from shardwright.runtime.execute import try_jobs
from tests.notation.document_stages import STAGES, Stage, differences, made, of_one_device, rows
from tests.notation.documents import snippet
from tests.notation.snippets import on_devices
from tests.partition.compare import assert_equal, make_case


@pytest.fixture(autouse=True)
def _use() -> Iterator[None]:
    """An op of nobody that reads a tensor in parts, as the documents have it: a rule says that it may."""
    sw.rule("use")(lambda signature: "i -> " if signature.operands[0].rank == 1 else "i j -> ")
    yield
    sw.forget_rule("use")


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: f"{stage.before} to {stage.after}")
def test_each_op_of_a_stage_is_that_of_the_document_but_for_what_is_listed(stage: Stage) -> None:
    spelled = of_one_device if stage.how.startswith("partitioned") else rows
    before, theirs = (snippet(number).module for number in (stage.before, stage.after))
    found = differences(spelled(theirs), spelled(made(before, stage.how)))
    assert found == [(one.theirs, one.ours) for one in stage.differences]


@pytest.mark.parametrize("devices", [2, 8])
def test_what_we_make_of_each_stage_computes_what_the_unsharded_program_does(devices: int) -> None:
    cases = {}
    for stage in STAGES:
        if not stage.how.startswith("partitioned"):
            text = made(on_devices(snippet(stage.before).program, devices), stage.how)
            cases[stage.before, stage.after] = make_case(convert_module(text, "sdy"), seed=1)
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    for number, (names, case) in enumerate(cases.items()):
        assert case.local.devices == devices
        assert_equal(str(names), case, done[2 * number], done[2 * number + 1])
