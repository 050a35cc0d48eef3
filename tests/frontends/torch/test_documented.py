"""What docs/pytorch.md shows is what is got, and prints what stands beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frontends.torch.installed import torch

PAGE = (Path(__file__).parents[3] / "docs" / "pytorch.md").read_text()
BLOCK = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_runs_and_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    [code] = BLOCK
    exec(compile(code, "docs/pytorch.md", "exec"), {"__name__": "documented"})
    shown = re.findall(r"^print\(.*\)  # ([^:\n]*(?:\[\{model\}, \{data\}\])?)", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == shown
