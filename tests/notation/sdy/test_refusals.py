"""What the sdy dialect forbids, and what propagation cannot take: every command names the line, and says what to change."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardwright.cli import cli
from shardwright.opt.command import run
from tests.notation.sdy.valid import VALID
from tests.notation.sdy.wrong import Wrong
from tests.notation.sdy.wrong_ops import WRONG_COLLECTIVES, WRONG_MANUAL, WRONG_OPS
from tests.notation.sdy.wrong_programs import WRONG_PROGRAMS
from tests.notation.sdy.wrong_shardings import WRONG_MESHES, WRONG_RULES, WRONG_SHARDINGS
from tests.oracles.shardy import ShardyFailure, run_batch

_TABLES = {
    "mesh": WRONG_MESHES,
    "sharding": WRONG_SHARDINGS,
    "rule": WRONG_RULES,
    "manual computation": WRONG_MANUAL,
    "collective": WRONG_COLLECTIVES,
    "op": WRONG_OPS,
}
FORBIDDEN = {f"{what}: {name}": wrong for what, table in _TABLES.items() for name, wrong in table.items()}
WRONG = FORBIDDEN | WRONG_PROGRAMS
REFUSED = {name: wrong for name, wrong in WRONG.items() if wrong.peer != "accepts"}

_VERIFY = "builtin.module()"
"""No pass at all: the C++ parses and verifies."""

_COMMANDS = (
    ("propagate", "wrong.mlir", "-o", "out.mlir"),
    ("partition", "wrong.mlir", "-o", "out.mlir"),
    ("run", "wrong.mlir"),
    ("explain", "wrong.mlir", "x"),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def answers() -> dict[str, str | ShardyFailure]:
    """What the C++ says of each wrong module."""
    return dict(zip(WRONG, run_batch([(wrong.text, _VERIFY) for wrong in WRONG.values()]), strict=True))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_every_command_names_the_line_and_says_why_and_what_to_change(wrong: Wrong, folder: Path) -> None:
    (folder / "wrong.mlir").write_text(wrong.text)
    for command in _COMMANDS:
        result = CliRunner().invoke(cli, list(command))
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        head, *rest = result.stderr.splitlines()
        assert head.startswith(f"wrong.mlir:{wrong.line}:"), result.stderr
        assert re.search(wrong.words, head), result.stderr
        assert [line[:10] for line in rest[-2:]] == ["  why:    ", "  change: "], result.stderr
        assert not re.search("MLIR's (?:parser|verifier)|failed to parse|where the parser stopped", "".join(rest))
        assert [path.name for path in folder.iterdir()] == ["wrong.mlir"]


@pytest.mark.parametrize("wrong", REFUSED.values(), ids=REFUSED)
def test_it_is_not_converted_either(wrong: Wrong, folder: Path) -> None:
    (folder / "wrong.mlir").write_text(wrong.text)
    result = CliRunner().invoke(cli, ["convert", "wrong.mlir", "--to", "shard", "-o", "out.mlir"])
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(f"wrong.mlir:{wrong.line}:")
    assert not (folder / "out.mlir").exists()


@pytest.mark.oracle
def test_the_peer_refuses_accepts_and_dies_of_the_same_modules(answers: dict[str, str | ShardyFailure]) -> None:
    assert {name: _peer(answer) for name, answer in answers.items()} == {
        name: wrong.peer for name, wrong in WRONG.items()
    }


def _peer(answer: str | ShardyFailure) -> str:
    if isinstance(answer, str):
        return "accepts"
    return "dies" if answer.message.startswith("exit -") else "refuses"


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSED)
def test_passes_are_not_run_on_it_and_the_line_is_the_peers(
    name: str, folder: Path, answers: dict[str, str | ShardyFailure]
) -> None:
    (folder / "wrong.mlir").write_text(WRONG[name].text)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run(["wrong.mlir", "-sdy-propagation-pipeline", "-o", "out.mlir"])
    assert status == 1
    assert not (folder / "out.mlir").exists()
    answer = answers[name]
    match = re.search(r'error: "-":(\d+):', answer.message) if isinstance(answer, ShardyFailure) else None
    line = match[1] if match is not None else WRONG[name].line
    assert re.search(rf"^wrong\.mlir:{line}:\d+: error: ", err.getvalue(), re.MULTILINE), err.getvalue()


@pytest.mark.parametrize("text", VALID)
def test_the_modules_that_these_are_made_of_are_propagated(text: str, folder: Path) -> None:
    (folder / "valid.mlir").write_text(text)
    result = CliRunner().invoke(cli, ["propagate", "valid.mlir"])
    assert result.exit_code == 0, result.output
