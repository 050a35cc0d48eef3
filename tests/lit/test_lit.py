"""The files here, run by LLVM's lit as `lit.cfg` says, with FileCheck's Python twin: `lit -v tests/lit` does the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(path.name for path in HERE.glob("*.mlir"))
LIT = "import sys; from lit.main import main; sys.exit(main())"


def lit(path: Path, made: Path) -> subprocess.CompletedProcess[str]:
    """Run a file, what it makes going to a folder."""
    environment = {**os.environ, "SHARDWRIGHT_LIT": str(made)}
    command = [sys.executable, "-c", LIT, "-v", "--order=lexical", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=made, env=environment)


def test_there_are_files() -> None:
    assert len(FILES) >= 15


@pytest.mark.parametrize("name", FILES)
def test_run_lines_give_what_their_checks_expect(name: str, tmp_path: Path) -> None:
    done = lit(HERE / name, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"PASS: shardwright :: {name}" in done.stdout


def test_what_a_check_does_not_find_fails(tmp_path: Path) -> None:
    (tmp_path / "lit.cfg").write_text((HERE / "lit.cfg").read_text())
    text = (HERE / "meshes.mlir").read_text().replace("INLINED-LABEL: ", "INLINED-LABEL: nothing like ", 1)
    assert "nothing like" in text
    (tmp_path / "meshes.mlir").write_text(text)
    done = lit(tmp_path / "meshes.mlir", tmp_path)
    assert done.returncode == 1
    assert "FAIL: shardwright :: meshes.mlir" in done.stdout
