"""Explanations fit their width, and lose nothing by it."""

from __future__ import annotations

import re

import pytest

import shardwright as sw
from shardwright.propagation import Explanation
from shardwright.report.explanation import explanations_page

_TEXT = """sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) -> tensor<16x256xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  %1 = stablehlo.tanh %0 : tensor<16x256xf32>
  return %1 : tensor<16x256xf32>
}
"""


def _explained(*names: str) -> list[Explanation]:
    plan = sw.load(_TEXT).plan()
    return [explanation for name in names for explanation in plan.explain(name)]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_an_explanation_fits_and_loses_nothing(width: int) -> None:
    explanations = _explained("result0", "x", "w", "%0")
    folded, plain = (str(explanations_page(explanations, size)) for size in (width, None))
    assert all(len(line) <= width for line in folded.splitlines())
    assert re.sub(r"\s", "", folded) == re.sub(r"\s", "", plain)


def test_columns_are_aligned_where_there_is_room_for_them() -> None:
    explanations = _explained("result0")
    for width, aligned in ((200, True), (None, True), (60, False)):
        rows = [line for line in str(explanations_page(explanations, width)).splitlines() if " -> result 0" in line]
        assert len(rows) >= 6
        assert (len({row.index("->") for row in rows}) == 1) is aligned


def test_what_is_piped_is_what_an_explanation_prints() -> None:
    explanations = _explained("result0", "w")
    assert str(explanations_page(explanations)) == "\n\n".join(map(str, explanations))


def test_of_many_values_the_first_are_explained() -> None:
    explanations = _explained("x") * 30
    page = str(explanations_page(explanations))
    assert page.count("argument x: ") == 20
    assert page.endswith("\n\n… and 10 more values; --all lists them")
    assert str(explanations_page(explanations, everything=True)).count("argument x: ") == 30
