"""The page on JAX is true: its lines print what it says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from tests.frontends.devices import eight_devices

eight_devices()

PAGE = Path(__file__).parents[1] / "docs" / "jax.md"


def test_every_line_prints_what_the_page_says() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried > 30
    assert failed == 0


def test_the_ratio_of_calls_is_the_one_of_the_changelog() -> None:
    [ratio] = re.findall(r"1\.\d\d to 1\.\d\d", PAGE.read_text())
    assert ratio in (PAGE.parents[1] / "CHANGELOG.md").read_text()
