"""The differences of newer jaxlibs are those of the document, and there are none of the one that is locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.newer import DIFFERENCES, INSTALLED, applies, expected_failure, explains

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
