"""The differences of newer jaxlibs are those of the document, and there are none of the one that is locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jaxlib_differences import DIFFERENCES, INSTALLED, applies, expected_failure, explains

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_the_document_tells_of_it_in_the_same_words(kind: str) -> None:
    document = " ".join((REPOSITORY / "docs" / "differences.md").read_text().split())
    assert DIFFERENCES[kind].document in document


def test_the_tests_that_are_named_are_there() -> None:
    for difference in DIFFERENCES.values():
        for name in difference.tests:
            file, _, test = name.partition("::")
            assert f"def {test.partition('[')[0]}" in (REPOSITORY / file).read_text()


def test_nothing_is_excused_with_the_jaxlib_that_is_locked() -> None:
    excused = [test for one in DIFFERENCES.values() for test in one.tests if expected_failure(test)]
    assert bool(excused) == (INSTALLED > (0, 10))
    assert explains('"stablehlo.if"', ["result 0: [], C++ [{x}]"]) == applies("if")
    assert not explains("stablehlo.add", ["result 0: [], C++ [{x}]"])


def test_a_reshape_or_a_reshard_is_excused_where_it_may_be_the_reason() -> None:
    apart = "stablehlo.reshape %a : (tensor<4x6xf32>) -> tensor<6x4x1xf32>"
    aligned = "stablehlo.reshape %a : (tensor<6x4xf32>) -> tensor<2x3x4x1xf32>"
    line = "%1 = stablehlo.reshape(%0): [{}], C++ [{x}]"
    assert explains(apart, [line]) == applies("reshapes")
    assert not explains(aligned, [line])
    nested = "sdy.manual_computation sdy.manual_computation"
    resharded = "ops: ['sdy.return'], C++ ['sdy.reshard', 'sdy.return']"
    assert explains(nested, [resharded]) == applies("reshards")
    assert not explains(nested, [resharded, line])
    assert not explains(nested, ["ops: ['sdy.return'], C++ ['stablehlo.add', 'sdy.return']"])
    constrained = '#sdy.sharding<@m, [{?}, {"x"}]> sdy.sharding_constraint'
    assert explains(constrained.replace('"x"', "?"), [line]) == applies("open")
    assert not explains(constrained, [line])
