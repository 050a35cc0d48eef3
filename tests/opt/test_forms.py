"""The forms in which a module goes out and comes in: one operation, bytecode of a version, and the same read again."""

import re

import pytest

from shardwright.ir.context import ir
from shardwright.opt import roundtrip
from shardwright.opt.printing import bytecode
from tests.opt.tool import AFTER_CSE, PROGRAM, SHARD, Tool

FUNCTION = PROGRAM.partition("\n")[2]


def test_one_operation_gets_no_module(tool: Tool) -> None:
    assert tool.good("-no-implicit-module", stdin=FUNCTION) == FUNCTION
    after = tool.good("-no-implicit-module", "-cse", stdin=FUNCTION)
    assert after.startswith("func.func @main(")
    assert after.count("stablehlo.add") == 1
    tool("-no-implicit-module", "-emit-bytecode", stdin=FUNCTION)
    assert tool.good("-no-implicit-module", stdin=tool.raw) == tool.good(stdin=FUNCTION)


def test_a_module_stays_one(tool: Tool) -> None:
    assert tool.good("-no-implicit-module", "-symbol-dce", stdin=AFTER_CSE) == AFTER_CSE


def test_what_a_pass_erases_leaves_nothing(tool: Tool) -> None:
    assert tool.good("-no-implicit-module", "-canonicalize", stdin="arith.constant 1 : i32") == ""


@pytest.mark.parametrize(("text", "count"), [("", 0), (PROGRAM, 2)])
def test_several_operations_and_none_are_refused_without_a_module(tool: Tool, text: str, count: int) -> None:
    message = f"<stdin>: error: source must contain a single top-level operation, found: {count}\n"
    assert tool.bad("-no-implicit-module", stdin=text) == message


@pytest.mark.parametrize("name", ["symbol-dce", "sdy-close-shardings"])
def test_passes_for_modules_are_refused_without_one(tool: Tool, name: str) -> None:
    err = tool.bad("-no-implicit-module", f"-{name}", stdin=FUNCTION)
    assert err.startswith(
        "<stdin>:1:1: error: can't run 'builtin.module' pass manager on 'func.func' op\nfunc.func @main("
    )


def test_broken_text_is_reported_as_ever_without_a_module(tool: Tool) -> None:
    assert tool.bad("-no-implicit-module", stdin="func.func @f(").startswith("<stdin>:1:13: error: ")


def test_bytecode_is_written_in_the_version_asked_for(tool: Tool) -> None:
    versions = []
    for version in ("3", "6"):
        tool("-cse", "-emit-bytecode", f"-emit-bytecode-version={version}", stdin=PROGRAM)
        versions.append(tool.raw[4] >> 1)
        assert tool.good(stdin=tool.raw) == AFTER_CSE
    assert versions == [3, 6]


def test_an_unknown_version_of_bytecode_is_refused(tool: Tool) -> None:
    err = tool.bad("-emit-bytecode", "-emit-bytecode-version=99", "-mlir-print-op-on-diagnostic=false", stdin=PROGRAM)
    assert re.fullmatch(r"<stdin>: error: unsupported version requested 99, must be in range \[.*\]\n", err)


@pytest.mark.parametrize("text", [PROGRAM, SHARD, ""])
@pytest.mark.parametrize("form", [[], ["-mlir-print-op-generic"]])
def test_modules_survive_being_printed(tool: Tool, text: str, form: list[str]) -> None:
    assert tool.good("-verify-roundtrip", *form, stdin=text) == tool.good(*form, stdin=text)


def test_a_module_that_changes_when_read_again_is_reported(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(op: ir.Operation) -> bytes:
        op.attributes["test.changed"] = ir.UnitAttr.get(op.context)
        return bytecode(op)

    monkeypatch.setattr(roundtrip, "bytecode", changed)
    err = tool.bad("-verify-roundtrip", stdin=PROGRAM)
    assert "<stdin>: error: roundTrip testing roundtripped module differs from reference\n" in err
    assert "from its bytecode" in err
