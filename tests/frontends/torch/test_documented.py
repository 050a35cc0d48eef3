"""What docs/pytorch.md shows is what is got, and prints what stands beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frontends.torch.installed import torch
from tests.frontends.torch.processes import launched

PAGE = (Path(__file__).parents[3] / "docs" / "pytorch.md").read_text()
BLOCK = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_runs_and_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    code = BLOCK[0]
    exec(compile(code, "docs/pytorch.md", "exec"), {"__name__": "documented"})
    shown = re.findall(r"^print\(.*\)  # ([^:\n]*(?:\[\{model\}, \{data\}\])?)", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


def test_what_modules_take_and_give_lies_as_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCK[2], "docs/pytorch.md", "exec"), {"__name__": "documented"})
    shown = re.findall(r"^print\(.*\)  # (.*)$", BLOCK[2], re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown


def test_the_script_for_processes_runs_in_them(tmp_path: Path) -> None:
    code = BLOCK[1]
    (tmp_path / "train.py").write_text(code)
    printed = launched(4, tmp_path / "train.py", tmp_path)
    assert re.findall(r"^\(.*\)$", printed, re.MULTILINE) == re.findall(
        r"^    print\(.*\)  # (.*)$", code, re.MULTILINE
    )
