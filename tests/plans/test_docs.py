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
    for name, text in zip(("matmul.mlir", "linear.mlir"), blocks("mlir"), strict=True):
        (folder / name).write_text(text)
    (folder / "tp_plan.json").write_text(blocks("json")[0])
    return folder


def test_every_line_of_the_page_runs_and_prints_what_is_shown(folder: Path) -> None:
    shown = blocks("")
    commands = [line for block in shown for line in block.splitlines() if line.startswith("shardwright ")]
    assert len(commands) >= 8
    printed: dict[str, str] = {}
    for line in commands:
        done = typed(line, folder)
        assert done.returncode == (1 if line.startswith("shardwright diff") else 0), f"{line}\n{done.stderr}"
        printed[line] = done.stdout
    assert printed["shardwright diff plan.toml other.toml"] in shown
    assert [text for line, text in printed.items() if line.endswith("--to torchtitan")] == blocks("json")[1:]
    assert (folder / "plan.toml").read_text() == blocks("toml")[0]


def test_the_python_prints_what_is_shown(folder: Path) -> None:
    typed("shardwright plan matmul.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model -o plan.toml", folder)
    first, second = (run_python(text, folder) for text in blocks("python"))
    assert first in blocks("")
    said = re.findall(r"#(?: |\n# )(.*)", blocks("python")[1])
    assert second.splitlines() == [line for line in said if not line.startswith("DeviceMesh")]


def run_python(text: str, folder: Path) -> str:
    (folder / "page.py").write_text(text)
    done = typed(f"'{sys.executable}' page.py", folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / "docs" / link).exists(), link
