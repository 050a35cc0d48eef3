"""What docs/plans.md shows is what a user gets who types it: files, commands in order, what they print, the Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plans.md").read_text()


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line as a shell runs it, with the commands of this Python first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans")
    (folder / "matmul.mlir").write_text(blocks("mlir")[0])
    return folder


def test_every_line_of_the_page_runs_and_prints_what_is_shown(folder: Path) -> None:
    shown = blocks("")
    commands = [line for block in shown for line in block.splitlines() if line.startswith("shardwright ")]
    assert len(commands) >= 6
    for line in commands:
        done = typed(line, folder)
        assert done.returncode == (1 if line.startswith("shardwright diff") else 0), f"{line}\n{done.stderr}"
        assert not line.startswith("shardwright diff") or done.stdout in shown
    assert (folder / "plan.toml").read_text() == blocks("toml")[0]
    (folder / "page.py").write_text(blocks("python")[0])
    done = typed(f"'{sys.executable}' page.py", folder)
    assert done.stdout in shown, done.stdout + done.stderr


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / "docs" / link).exists(), link
