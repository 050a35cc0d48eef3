"""What is said of modules that are wrong, and of input that is no module."""

import io
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.opt.command import run
from shardwright.opt.diagnostics import Text, emitted_for_error
from shardwright.opt.flags import parse_arguments
from shardwright.passes.registry import passes
from tests.opt.tool import BROKEN, PROGRAM, SHARD, Tool


def test_errors_have_position_line_and_caret(tool: Tool) -> None:
    assert tool.bad(tool.file("a.mlir", BROKEN)) == (
        "a.mlir:6:10: error: use of undeclared SSA value name\n  return %3 : tensor<8xf32>\n         ^\n"
    )


def test_errors_of_our_passes_read_like_mlirs_with_cause_and_remedy_as_notes(tool: Tool) -> None:
    line = "  %2 = stablehlo.multiply %0, %1 : tensor<8xf32>\n       ^\n"
    assert tool.bad("-sdy-toy-complain", stdin=PROGRAM) == (
        f"<stdin>:5:8: error: 'stablehlo.multiply' op no multiplication\n{line}"
        "<stdin>:5:8: note: slow\n<stdin>:5:8: note: add\n"
    )


def test_lines_count_as_in_the_whole_file_when_it_is_split(tool: Tool) -> None:
    text = f"{PROGRAM}// -----\n{BROKEN}"
    assert tool.bad("-split-input-file", stdin=text).startswith("<stdin>:14:10: error: use of undeclared")


def test_every_broken_part_is_reported(tool: Tool) -> None:
    text = f"{BROKEN}// -----\n{PROGRAM}// -----\n{BROKEN}"
    assert re.findall(r"^<stdin>:(\d+)", tool.bad("-split-input-file", stdin=text), re.MULTILINE) == ["6", "22"]


def test_an_invalid_module_after_a_pass_is_found_unless_asked_not_to(tool: Tool) -> None:
    err = tool.bad("-sdy-toy-break", stdin=PROGRAM)
    assert err.startswith("<stdin>:2:1: error: 'func.func' op entry block must have 0 arguments")
    assert "note: see current operation" in err
    out = tool.good("-sdy-toy-break", "-verify-each=false", stdin=PROGRAM)
    assert "function_type = () -> ()" in out


def test_a_position_in_rewritten_text_points_to_the_line_as_it_was_given() -> None:
    text = Text("f", "a\n\t shard.x %1", 'a\n"shard.x"(%1)')
    error = ShardingError("bad", location="f:2:9")
    assert emitted_for_error(error, text).render(text) == "f:2:3: error: bad\n\t shard.x %1\n\t ^\n"


@pytest.mark.parametrize("where", ["", "-"])
def test_a_diagnostic_without_a_position_names_the_file(where: str) -> None:
    text = Text("f", "a")
    assert emitted_for_error(ShardingError("bad", location=where), text).render(text) == "f: error: bad\n"


def test_a_mistake_of_ours_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys; from shardwright.opt import command; from shardwright.passes.registry import register\n"
        "@register('crash', 'Crashes.')\ndef crash(module, options): raise KeyError('lost')\n"
        "sys.argv = ['shardwright-opt', '-crash']\ncommand.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=PROGRAM, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "KeyError" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "neither MLIR text nor MLIR bytecode"),
        (b"ML\xefRgarbage", "bytecode version"),
        (b"(" * 5000, "nested more than"),
        (b"func.func @f(", "<stdin>:1:13: error: "),
    ],
)
def test_hostile_input_is_a_diagnostic(tool: Tool, content: bytes, message: str) -> None:
    assert message in tool.bad("-", stdin=content)


def whole_run(arguments: list[str], stdin: bytes) -> tuple[int, str, bytes]:
    """Status, standard error and output of a run whose streams are replaced; for tests that run many times."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = run(arguments)
    out.flush()
    return status, err.getvalue(), out.buffer.getvalue()


CUTS = st.tuples(
    st.integers(0, 400), st.integers(0, 12), st.sampled_from(["", "}", "{", '"', "// -----\n", "\x00", "é"])
)
FLAG_SETS = [[], ["-cse"], ["-split-input-file"], ["-emit-bytecode"], ["-split-input-file", "-mlir-print-op-generic"]]


@settings(deadline=None)  # bytecode is first read in another process
@given(st.sampled_from([PROGRAM, SHARD]), CUTS, st.sampled_from(FLAG_SETS))
def test_any_damage_ends_in_a_module_or_in_diagnostics(text: str, cut: tuple[int, int, str], flags: list[str]) -> None:
    start, length, put = cut
    damaged = text[:start] + put + text[start + length :]
    status, err, out = whole_run(flags, damaged.encode())
    if status:
        assert "error: " in err
        assert out == b""
    else:
        again, err, _ = whole_run(["-split-input-file"], out)
        assert (again, err) == (0, "")


@given(st.lists(st.text("-o=cse hlp,'{}", max_size=12), max_size=4))
def test_any_arguments_are_read_or_refused(arguments: list[str]) -> None:
    try:
        read = parse_arguments(arguments)
    except ShardingError as error:
        assert error.diagnostic.message
    else:
        assert {name for name, _ in read.passes} <= {entry.name for entry in passes()}


def test_an_unreadable_file_and_a_place_that_cannot_be_written_are_diagnostics(tool: Tool) -> None:
    assert "cannot open input file 'nowhere.mlir': No such file or directory\n" in tool.bad("nowhere.mlir")
    assert "cannot open input file '.': Is a directory\n" in tool.bad(".")
    assert "cannot open output file 'no/where'" in tool.bad("-", "-o", "no/where", stdin=PROGRAM)


CLOSED = "import sys; from shardwright.opt import main; sys.argv = ['shardwright-opt', *sys.argv[1:]]; main()"


def in_a_shell(redirection: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Status, output and error of a command whose streams a shell redirects."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", CLOSED, *arguments]
    done = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, check=False, cwd=folder)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("redirection", "arguments", "message"),
    [
        (">&-", [], "cannot write to standard output"),
        (">/dev/full", [], "No space left on device"),
        (">/dev/full", ["--help"], "No space left on device"),
        ("<&-", ["-"], "cannot open input file '-': standard input is closed"),
    ],
)
def test_streams_that_are_closed_or_full_are_diagnostics(
    tmp_path: Path, redirection: str, arguments: list[str], message: str
) -> None:
    status, out, err = in_a_shell(redirection, tmp_path, *arguments)
    assert (status, out) == (1, "")
    assert message in err
    assert "mistake in shardwright" not in err


def test_without_standard_error_diagnostics_do_not_mix_with_the_output(tmp_path: Path) -> None:
    assert in_a_shell("2>&-", tmp_path, "-csee") == (1, "", "")


def test_a_reader_that_has_read_enough_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text(
        "".join(PROGRAM.replace("main", f"f{i}").replace("@mesh", f"@m{i}") for i in range(900))
    )
    _, out, err = in_a_shell("| head -1", tmp_path, "a.mlir")
    assert (out, err) == ("module {\n", "")


def test_line_breaks_of_windows_are_not_shown(tool: Tool) -> None:
    err = tool.bad(stdin=BROKEN.replace("\n", "\r\n"))
    assert err == "<stdin>:6:10: error: use of undeclared SSA value name\n  return %3 : tensor<8xf32>\n         ^\n"


def test_ops_need_not_be_shown_with_errors(tool: Tool) -> None:
    text = PROGRAM + PROGRAM.partition("\n")[2]
    assert "see current operation" in tool.bad(stdin=text)
    err = tool.bad("-mlir-print-op-on-diagnostic=false", stdin=text)
    assert "redefinition of symbol named 'main'" in err
    assert "note: see existing symbol definition here" in err
    assert "see current operation" not in err
