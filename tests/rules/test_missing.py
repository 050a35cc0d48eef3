"""Legal splits that no rule offers: the report, and that it would find them.

    SHARDWRIGHT_FUZZ=50 .venv/bin/python -m pytest tests/rules/test_missing.py -m long

prints the report on 50 instances of every op.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from tests.rules.corpus import MAKERS, Instance, program
from tests.rules.missing import Missing, legal_splits, missing_splits
from tests.rules.programs import ops_of
from tests.rules.test_numbers import SKIPPED

_KNOWN = {
    "stablehlo.concatenate": "all operands but one are empty, or only one is there",
    "stablehlo.convolution": "windows of one element, which need no neighbours",
    "stablehlo.reduce_window": "windows that lie apart from each other, or fall into one part",
    "stablehlo.scatter": "updates that happen to lie outside, or to repeat what is there",
    "stablehlo.select_and_scatter": "windows that fall into one part",
    "stablehlo.sort": "elements that happen to be in order",
    "stablehlo.triangular_solve": "columns of the right side are independent; the C++ wants them whole",
}
"""Ops with splits that are missing, and why."""

_UNTRIED = (*(set(SKIPPED) - {"stablehlo.rng_bit_generator"}), "stablehlo.fft")
"""Ops that cannot be computed here, and one on whose parts of another length XLA ends the process."""

_TRIED = [name for name in MAKERS if name not in _UNTRIED]


def _missing(count: int) -> tuple[list[Missing], str]:
    """What is missing, in one line too."""
    missing = [split for name in _TRIED for split in missing_splits(name, count)]
    ops = sorted({split.instance.name for split in missing})
    unknown = [str(split) for split in missing if split.instance.name not in _KNOWN]
    assert unknown == []
    return missing, f"{len(missing)} legal splits without a rule in {count} instances of {len(_TRIED)} ops: {ops}"


def test_splits_that_no_rule_offers_are_known(record_property: Callable[[str, object], None]) -> None:
    record_property("summary", _missing(3)[1])


@pytest.mark.long
def test_many_splits_that_no_rule_offers_are_known(record_property: Callable[[str, object], None]) -> None:
    missing, line = _missing(int(os.environ.get("SHARDWRIGHT_FUZZ", "25")))
    reasons = [f"  {name}: {_KNOWN[name]}" for name in sorted({split.instance.name for split in missing})]
    untried = f"  not tried: {', '.join(sorted(_UNTRIED))}"
    record_property("summary", "\n".join([line, *reasons, untried, *(f"  {split}" for split in missing)]))


def test_columns_of_a_triangular_solve_are_missing() -> None:
    missing = {
        (split.operands, split.results, split.kind) for split in missing_splits("stablehlo.triangular_solve", 10)
    }
    assert ((None, 2), (2,), "side by side") in missing


def _legal(name: str, operands: tuple[str, ...], results: tuple[str, ...], attributes: str = "") -> set[str]:
    instance = Instance(name, operands, results, attributes)
    signature = ops_of(program([instance]))[0].signature
    return {str(split).split(":", 1)[0] for split in legal_splits(instance, signature)}


def test_every_loop_of_a_matrix_product_is_found() -> None:
    assert _legal("stablehlo.dot", ("tensor<4x6xf32>", "tensor<6x8xf32>"), ("tensor<4x8xf32>",)) == {
        "stablehlo.dot (0, -) -> (0) side by side",
        "stablehlo.dot (-, 1) -> (1) side by side",
        "stablehlo.dot (1, 0) -> (-) sum",
    }


def test_what_needs_the_other_part_is_not_legal() -> None:
    legal = _legal("stablehlo.reverse", ("tensor<4x6xf32>",), ("tensor<4x6xf32>",), "dimensions = array<i64: 0>")
    assert legal == {"stablehlo.reverse (1) -> (1) side by side"}
