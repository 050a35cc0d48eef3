"""The walkthrough is true: its blocks print what it says, and every function that it links is where it says."""

import doctest
import re
from pathlib import Path

import pytest

WALKTHROUGH = Path(__file__).parents[1] / "docs" / "walkthrough.md"
LINKS = re.findall(r"\[`(\w+)`\]\(([^)]+)\)", WALKTHROUGH.read_text())


def test_the_blocks_print_what_the_walkthrough_says() -> None:
    failed, tried = doctest.testfile(str(WALKTHROUGH), module_relative=False)
    assert tried > 10
    assert failed == 0


@pytest.mark.parametrize(("name", "path"), LINKS)
def test_a_link_leads_to_what_it_names(name: str, path: str) -> None:
    source = (WALKTHROUGH.parent / path).resolve().read_text()
    assert re.search(rf"^(?:async )?(?:def|class) {name}\b|^{name} = ", source, re.MULTILINE)


def test_every_link_leads_somewhere() -> None:
    paths = re.findall(r"\]\(([^)#]+)\)", WALKTHROUGH.read_text())
    assert len(paths) > len(LINKS)
    assert not [path for path in paths if not (WALKTHROUGH.parent / path).exists()]
