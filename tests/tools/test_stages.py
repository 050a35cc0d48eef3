"""The comparison of two versions of the source finds what differs, and tells what it compared."""

from __future__ import annotations

import pytest

from shardwright.program.program import EXAMPLE
from tools.stages import ROOT, compared, programs, taken_through

ANNOTATED = 'sdy.mesh @mesh = <["x"=2]>\n' + EXAMPLE.replace(
    "%x: tensor<16x64xf32>,", '%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},'
)


def test_every_stage_is_written_and_what_is_refused_is_told() -> None:
    written = taken_through(ROOT / "src", [("good", ANNOTATED), ("bad", EXAMPLE)])
    assert written["good"].keys() == {"propagated", "explicit", "local", "notes"}
    assert "tensor<8x64xf32>" in written["good"]["local"]
    assert written["bad"].keys() == {"diagnostic"}


def test_what_differs_is_named_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    before = {"one": {"local": "a\nb"}, "other": {"local": "c"}}
    after = {"one": {"local": "a\nB"}, "other": {"local": "c"}}
    assert compared(before, after) == ["one"]
    assert {"-b", "+B"} <= set(capsys.readouterr().out.splitlines())
    assert compared(before, before) == []


def test_there_are_examples_and_random_programs() -> None:
    names = [name for name, _ in programs(4)]
    assert names[-4:] == ["random 0", "wide 0", "random 1", "wide 1"]
    assert "gpt2" in names
