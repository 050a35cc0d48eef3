"""What a device sends in a step: never more than in the program that XLA's partitioner makes of the same module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardwright.analysis.traffic import collectives, summarize
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.partition import localize, materialize
from shardwright.propagation import propagate
from tests.oracles.xla import partition

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTES = {"mlp": [("examples/mlp.py:21", 96, False)]}
"""What is gathered because the shardings of an op's tensors ask for it, as in a 2D weight-stationary MLP."""


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mlp", "gpt2", "gpt8", "gpt32_scan", "decode"])
def test_a_device_sends_no_more_than_under_xla(name: str, record_property: Callable[[str, object], None]) -> None:
    text = (EXAMPLES / f"{name}.mlir").read_text()
    explicit = materialize(propagate(read(load_module(text))))
    assert [(note.location, note.bytes, note.is_fallback) for note in explicit.notes] == NOTES.get(name, [])
    uses = collectives(localize(explicit.graph))
    assert all(use.trip_count_known for use in uses)
    ours = summarize(uses).total.executed_bytes
    theirs = sum(use.total for use in partition(text, 8).uses)
    less = f"{1 - ours / theirs:.1%} less" if ours < theirs else "the same"
    record_property("summary", f"{name}: {ours:,.0f} bytes sent per device and step, XLA {theirs:,.0f}: {less}")
    assert ours <= theirs
