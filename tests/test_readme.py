"""What the README shows is what a user gets who types it: commands by a shell, in order; what they print; the Python."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jaxlib_differences import INSTALLED

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = ("shardwright ", "shardwright-opt ")
MEASURED_WITH = (0, 10)
"""The jaxlib whose XLA the differences shown are those of: another one rounds otherwise."""
ROUNDING = 4.0
"""How many times larger or smaller differences are on other processors, for which XLA writes other code: less than so."""


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def commands() -> list[str]:
    lines = "\n".join(blocks("")).splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.startswith(COMMANDS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README says is there: the examples, the tests, and the program that it shows."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("examples", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "matmul.mlir").write_text(blocks("mlir")[0])
    return folder


def typed(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line as a shell runs it, with the commands of this Python first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, env=environment, check=False)


def test_every_command_works_one_after_the_other_and_prints_what_is_shown(folder: Path) -> None:
    assert len(commands()) >= 14
    printed: dict[str, str] = {}
    for line in commands():
        done = typed(line, folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        printed[line] = done.stdout
    run = printed["shardwright run       examples/gpt2.mlir"]
    [shown] = [block for block in blocks("") if block.startswith("Search for")]
    for line in filter(None, shown.splitlines()):
        assert line.strip() == "…" or any(is_shown(line, other) for other in run.splitlines()), line


def is_shown(shown: str, printed: str) -> bool:
    """Whether a line was printed as it is shown, but for what depends on the machine: shares, and how processors round.

    Differences are at most `ROUNDING` times larger or smaller than those shown; with another XLA than `MEASURED_WITH`
    they are in their places alone.
    """
    pairs = list(itertools.zip_longest(shown.split(), printed.split(), fillvalue=""))
    return all(one == other or _is_as_large(one, other) for one, other in pairs)


def _is_as_large(shown: str, printed: str) -> bool:
    if re.fullmatch(r"\d+%", shown):
        return re.fullmatch(r"\d+%", printed) is not None
    if not all(re.fullmatch(r"\d\.\de[-+]\d\d|0", word) for word in (shown, printed)):
        return False
    return INSTALLED != MEASURED_WITH or float(printed) / ROUNDING < float(shown) < float(printed) * ROUNDING


@pytest.mark.parametrize(
    ("printed", "is_alike"),
    [
        ("loss 1 0 7.9e-06 0%", True),
        ("loss 1 0 5.3e-05 0%", INSTALLED != MEASURED_WITH),
        ("loss 1 0 3.2e-06 0%", INSTALLED != MEASURED_WITH),
        ("loss 2 0 1.3e-05 0%", False),
        ("loss 1 0 1.3e-05", False),
    ],
)
def test_what_depends_on_the_machine_may_differ_by_little(printed: str, is_alike: bool) -> None:
    assert is_shown("loss 1 0 1.3e-05 3%", printed) == is_alike


def test_its_own_annotations_are_those_that_the_options_give(folder: Path) -> None:
    [annotated] = [block for block in blocks("") if block.startswith("sdy.mesh")]
    head, body = blocks("mlir")[0].split("\n", 1)
    assert head.startswith("func.func public @main(")
    (folder / "annotated.mlir").write_text(annotated + body)
    given = typed("shardwright propagate matmul.mlir --mesh data=2,model=4 --arg x=data,- --arg w=-,model", folder)
    own = typed("shardwright propagate annotated.mlir", folder)
    annotation = re.compile(r"sdy\.sharding = #sdy\.sharding[^>]*>*?\]>")
    assert (own.returncode, given.returncode) == (0, 0)
    assert annotation.findall(own.stdout) == annotation.findall(given.stdout) != []


def test_the_python_works(folder: Path) -> None:
    (folder / "readme.py").write_text(blocks("python")[0])
    done = typed(f"'{sys.executable}' readme.py", folder)
    assert (done.returncode, done.stdout.splitlines()[:1]) == (0, ["[{model}, {}]"]), done.stderr


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link
