"""The examples, every value compared with the C++ Shardy's pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.oracles.shardy import PROPAGATE, run_pipeline
from tests.propagation.comparison import differences

_EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["mlp", "gpt2", "gpt8", "gpt32_scan", "decode"])
def test_every_value_of_an_example_is_sharded_as_shardy_does(name: str) -> None:
    graph = read(load_module((_EXAMPLES / f"{name}.mlir").read_text()))
    theirs = run_pipeline(str(write(graph)), PROPAGATE)
    assert differences(propagate(graph), theirs) == []


@pytest.mark.oracle
@pytest.mark.long
def test_the_unrolled_32_layers_are_sharded_as_shardy_does() -> None:
    path = _EXAMPLES / "gpt32.mlir"
    if not path.exists():
        pytest.skip("examples/gpt32.mlir is written by examples/gpt.py and not kept in the repository")
    graph = read(load_module(path.read_text()))
    assert differences(propagate(graph), run_pipeline(str(write(graph)), PROPAGATE)) == []


def test_the_input_graph_is_not_changed() -> None:
    graph = read(load_module((_EXAMPLES / "mlp.mlir").read_text()))
    before = str(write(graph)), list(graph.shardings), [repr(op) for op in graph.walk()]
    propagate(graph)
    assert (str(write(graph)), list(graph.shardings), [repr(op) for op in graph.walk()]) == before


def test_every_tensor_has_a_closed_sharding() -> None:
    propagated = propagate(read(load_module((_EXAMPLES / "gpt32_scan.mlir").read_text())))
    for type, sharding in zip(propagated.types, propagated.shardings, strict=True):
        if type.is_tensor:
            assert sharding is not None
            assert sharding == sharding.closed()
    assert None not in propagated.main.result_shardings
    assert not any(op.name == "sdy.sharding_constraint" for op in propagated.walk())
