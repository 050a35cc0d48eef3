"""Our counts of a per-device module beside XLA's of the same module: two programs that share no code."""

from __future__ import annotations

from collections import Counter

import pytest

from shardwright.analysis.memory import memory
from shardwright.analysis.traffic import collectives, summarize
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read, write
from shardwright.partition import localize, materialize
from shardwright.propagation import propagate
from tests.oracles.xla import ROOT, compile_local


def local(name: str) -> Graph:
    text = (ROOT / "examples" / f"{name}.mlir").read_text()
    return localize(materialize(propagate(read(load_module(text)))).graph)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mlp", "gpt2", "decode", "gpt32_scan"])
def test_traffic_is_what_xla_reads_and_memory_about_what_it_assigns(name: str) -> None:
    graph = local(name)
    theirs = compile_local(module_text(write(graph, shardings=False)), 8)
    uses = collectives(graph)
    assert Counter((use.kind, use.group_size, use.sent_bytes, use.executed) for use in uses) == Counter(
        (use.kind.replace("-", "_"), use.group_size, use.sent, use.executed) for use in theirs.uses
    )
    assert summarize(uses).total.executed_bytes == sum(use.total for use in theirs.uses)
    assert memory(graph).peak == pytest.approx(theirs.memory_bytes, rel=0.25, abs=2048)
