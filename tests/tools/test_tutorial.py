"""The tutorial prints what its commands do."""

from __future__ import annotations

import pytest

from tools import tutorial


def test_the_page_is_what_its_commands_print() -> None:
    page = tutorial.FILE.read_text()
    assert tutorial.render(page) == page
    assert page.count("\n$ shardwright ") >= 10
    for word in ("no op is computed more than once", "Results: equal to the unsharded program"):
        assert word in page


def test_what_is_stale_is_found_and_a_command_that_fails_is_no_page() -> None:
    page = "<!-- file: a.mlir -->\n```mlir\nmodule {}\n```\n```console\n$ shardwright --version\nold\n```\n"
    rendered = tutorial.render(page)
    assert rendered != page
    assert "old" not in rendered
    assert rendered.endswith("\n```\n")
    with pytest.raises(RuntimeError, match=r"shardwright verify a\.mlir"):
        tutorial.render(page.replace("--version", "verify a.mlir"))
    with pytest.raises(RuntimeError, match="not a command of ours"):
        tutorial.render(page.replace("shardwright --version", "rm a.mlir"))
