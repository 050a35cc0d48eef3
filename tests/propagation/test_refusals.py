"""Modules that have no program to propagate through, or several; and what a refusal leaves untouched."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shardwright.cli import cli
from tests.notation.sdy.wrong import TYPE
from tests.notation.sdy.wrong_programs import WRONG_PROGRAMS

_MESH = 'sdy.mesh @mesh = <["a"=2]>\n'
_BODY = f"(%x: {TYPE}) -> {TYPE} {{\n  return %x : {TYPE}\n}}\n"

_WITHOUT_ENTRY = {
    "no function": (_MESH, "functions: none"),
    "nothing at all": ("\n", "functions: none"),
    "two public functions": (f"{_MESH}func.func @f{_BODY}func.func @g{_BODY}", "functions: @f, @g"),
    "a private function": (f"{_MESH}func.func private @f{_BODY}", "functions: @f"),
    "the entry of a module inside": (f"{_MESH}module @inner {{\nfunc.func @main{_BODY}}}\n", "functions: none"),
}


@pytest.mark.parametrize(("text", "cause"), _WITHOUT_ENTRY.values(), ids=_WITHOUT_ENTRY)
def test_a_module_without_an_entry_is_refused(text: str, cause: str, tmp_path: Path) -> None:
    file, out = tmp_path / "wrong.mlir", tmp_path / "out.mlir"
    file.write_text(text)
    result = CliRunner().invoke(cli, ["propagate", str(file), "-o", str(out)])
    assert result.exit_code == 1, result.output
    assert result.stderr == (
        f"{file}: error: the module has no function @main\n  why:    {cause}\n  change: name the program's entry @main\n"
    )
    assert not out.exists()


@pytest.mark.parametrize("public", ["@only", "@main"])
def test_one_public_function_is_the_entry(public: str, tmp_path: Path) -> None:
    file = tmp_path / "right.mlir"
    file.write_text(f"{_MESH}func.func {public}{_BODY}func.func private @helper{_BODY}")
    result = CliRunner().invoke(cli, ["propagate", str(file)])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_an_output_that_there_is_stays_as_it_was(name: str, tmp_path: Path) -> None:
    file, out = tmp_path / "wrong.mlir", tmp_path / "out.mlir"
    file.write_text(WRONG_PROGRAMS[name].text)
    out.write_text("before")
    result = CliRunner().invoke(cli, ["propagate", str(file), "-o", str(out)])
    assert result.exit_code == 1, result.output
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mlir", "wrong.mlir"]
