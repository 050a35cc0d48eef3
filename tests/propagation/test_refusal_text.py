"""What a refusal names: parts of axes with their bounds."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.propagation import Explanation, History, Recording, explain_values, find_value, propagate

_T = "tensor<12xf32>"


def _sharded(name: str, sharding: str) -> str:
    return f"%{name}: {_T} {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}"


def _explained(one: str, other: str) -> Explanation:
    text = f"""sdy.mesh @mesh = <["x"=4, "y"=12]>
func.func @main({_sharded("a", one)}, {_sharded("b", other)}) -> {_T} {{
  %0 = stablehlo.add %a, %b : {_T}
  return %0 : {_T}
}}"""
    recording = Recording()
    graph = propagate(read(load_module(text)), record=recording)
    return explain_values(History(recording, graph), find_value(graph, "arg0"))[0]


@pytest.mark.parametrize(
    ("one", "other", "detail"),
    [
        ('[{"x"}]', '[{"y":(1)3, ?}]', "the dimension is split by {y:(1)3} already"),
        ('[{"x"}]', '[{"y", ?}]', "the dimension is split by {y} already"),
        ('[{"y":(1)3}]', '[{?}], replicated={"y":(1)3}', "it is to be replicated along y:(1)3"),
        ('[{"x":(2)2}]', '[{?}], unreduced={"x":(2)2}', "it awaits reduction along x:(2)2"),
    ],
)
def test_a_part_of_an_axis_is_named_with_its_bounds(one: str, other: str, detail: str) -> None:
    assert any(stop.detail.startswith(detail) for stop in _explained(one, other).stops)
