"""Diagnostics survive copies and the way between processes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from shardwright.errors import Diagnostic, ShardingError

PARTS = {"op": "stablehlo.dot", "location": "step.mlir:3:5", "cause": "a reason", "remedy": "a change"}


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_copies(again: Callable[[ShardingError], ShardingError]) -> None:
    error = ShardingError("it does not fit", **PARTS)
    error.add_note("seen twice")
    made = again(error)
    assert type(made) is ShardingError
    assert str(made) == str(error)
    assert made.args == error.args
    assert made.diagnostic == error.diagnostic == Diagnostic("it does not fit", **PARTS)
    assert made.__notes__ == ["seen twice"]


def test_at_fills_what_is_missing_and_replaced_what_is_given() -> None:
    bare = ShardingError("it does not fit", cause="a reason", remedy="a change")
    placed = bare.at("stablehlo.dot", "step.mlir:3:5")
    assert placed.diagnostic == Diagnostic("it does not fit", **PARTS)
    assert placed.at("func.func", "other.mlir:1:1").diagnostic == placed.diagnostic
    assert placed.replaced(op="func.func", remedy="").diagnostic == Diagnostic(
        "it does not fit", op="func.func", location="step.mlir:3:5", cause="a reason"
    )
