"""The RUN lines of the files here, run by a shell as lit runs them, and what FileCheck is to find in their output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lit.filecheck import Mismatch, check, directives

HERE = Path(__file__).parent
COMMANDS = {
    "shardwright-opt": [sys.executable, "-c", "from shardwright.opt import main; main()"],
    "FileCheck": [sys.executable, str(HERE / "filecheck.py")],
}
FILES = sorted(path.name for path in HERE.glob("*.mlir"))


def run_lines(text: str) -> list[str]:
    """The commands of a file; one that ends in a backslash goes on in the next."""
    return re.findall(r"// RUN: *(.*)", re.sub(r"\\\n// RUN: *", "", text))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A PATH on which the commands are, and the package as it is in this tree."""
    folder = tmp_path_factory.mktemp("bin")
    for name, words in COMMANDS.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    (folder / "not").write_text('#!/bin/sh\n"$@"\n[ $? -eq 1 ]\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    source = str(HERE.parents[1] / "src")
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source}


def test_there_are_files() -> None:
    assert len(FILES) >= 15
    assert all(run_lines((HERE / name).read_text()) for name in FILES)


@pytest.mark.parametrize("name", FILES)
def test_run_lines_give_what_their_checks_expect(name: str, environment: dict[str, str], tmp_path: Path) -> None:
    path = HERE / name
    for line in run_lines(path.read_text()):
        command = ["bash", "-o", "pipefail", "-c", line.replace("%s", shlex.quote(str(path)))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        assert list(tmp_path.iterdir()) == []


# The checker.


def met(checks: str, output: str) -> bool:
    """Whether an output meets the checks."""
    try:
        check(directives(checks), output)
    except Mismatch:
        return False
    return True


@pytest.mark.parametrize(
    ("checks", "good", "bad"),
    [
        ("CHECK: b", "a\nb", "a\nc"),
        ("CHECK: a\nCHECK: b", "a\nx\nb", "b\na"),
        ("CHECK: a\nCHECK-NEXT: b", "a\nb", "a\nx\nb"),
        ("CHECK: a\nCHECK-NEXT: b", "a\nb", "a b"),
        ("CHECK: a\nCHECK-SAME: b", "a x b", "a\nb"),
        ("CHECK: a\nCHECK-NOT: x\nCHECK: b", "x a\nb\nx", "a\nx\nb"),
        ("CHECK: a\nCHECK-NOT: x", "x a", "a\nx"),
        ("CHECK-NOT: x\nCHECK: b", "b x", "x b"),
        ("CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a b c", "a c b"),
        ("CHECK-DAG: a\nCHECK-DAG: a", "a a", "a"),
        ("CHECK-DAG: b\nCHECK-NOT: x\nCHECK: c", "x b c", "b x c"),
        ("CHECK-LABEL: f\nCHECK: a\nCHECK-LABEL: g", "f a g", "f g a"),
        ("CHECK-LABEL: f\nCHECK-NOT: x\nCHECK-LABEL: g\nCHECK: x", "f g x", "f x g x"),
        ("CHECK-LABEL: f", "f", "g"),
        ("CHECK: a{{[0-9]+}}b", "a12b", "ab"),
        ("CHECK: [[X:%[a-z]+]] = f\nCHECK: g [[X]]", "%a = f\ng %a", "%a = f\ng %b"),
        ("CHECK: [[X:[a-z]+]] [[X]]", "a a", "a b"),
        ("CHECK: line [[@LINE+1]]", "line 2", "line 1"),
        ("CHECK: a.b  (c)", "a.b (c)", "axb (c)"),
        ("CHECK: {{^}}a{{$}}", "b\na\nc", "ab\nba"),
        ("CHECK: g [[X]]", "", "g"),
        ("CHECK-FOO: g", "", "g"),
        ("nothing", "", "a"),
    ],
)
def test_checks_are_met_as_filecheck_meets_them(checks: str, good: str, bad: str) -> None:
    assert not good or met(checks, good)
    assert not met(checks, bad)
