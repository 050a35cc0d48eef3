"""Arguments are read as LLVM reads them, or refused."""

import pytest

from shardwright.opt.flags import FLAGS, MARKER, Settings, parse_arguments
from tests.opt.tool import Tool


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ([], {}),
        (["-"], {}),
        (["x"], {"input": "x"}),
        (["-o", "y", "x"], {"input": "x", "output": "y"}),
        (["--o=y"], {"output": "y"}),
        (["--", "-cse"], {"input": "-cse"}),
        (["-cse", "--cse"], {"passes": (("cse", ""), ("cse", ""))}),
        (["--canonicalize='max-iterations=1'"], {"passes": (("canonicalize", "max-iterations=1"),)}),
        (["-split-input-file"], {"split_input_file": MARKER}),
        (["-split-input-file=#"], {"split_input_file": "#"}),
        (["-verify-diagnostics"], {"verify_diagnostics": "all"}),
        (["-verify-each=0"], {"verify_each": False}),
        (["--mlir-timing=true"], {"mlir_timing": True}),
        (["-pass-pipeline", "any()"], {"pass_pipeline": "any()"}),
        (["-hardware", "h100"], {"hardware": "h100"}),
        (["-output-split-marker="], {"output_split_marker": ""}),
        (["--help-hidden"], {"help": True}),
        (["-mlir-print-ir-after=cse", "-mlir-print-ir-after=sccp,inline"], {"mlir_print_ir_after": "cse,sccp,inline"}),
        (["-emit-bytecode", "-emit-bytecode-version=4"], {"emit_bytecode": True, "emit_bytecode_version": "4"}),
    ],
)
def test_arguments_are_read_as_llvm_reads_them(arguments: list[str], changed: dict[str, object]) -> None:
    read = parse_arguments(arguments)
    expected = {name: getattr(Settings(), name) for name in Settings.__slots__} | changed
    assert {name: getattr(read, name) for name in Settings.__slots__} == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-csee"], "unknown command line argument '-csee'\nshardwright-opt: note: did you mean -cse?"),
        (["a", "b"], "too many positional arguments"),
        (["-o"], "-o needs a value"),
        (["-mlir-timing=maybe"], "-mlir-timing is 'maybe'"),
        (["-verify-diagnostics=none"], "-verify-diagnostics is 'none'"),
        (["-mlir-elide-elementsattrs-if-larger=x"], "it is no number"),
        (["-mlir-print-ir-after=cse,foo"], "for the --mlir-print-ir-after option: Cannot find option named 'foo'!"),
        (["-mlir-print-ir-before="], "-mlir-print-ir-before needs a value"),
        (["-mlir-timing-display=flat"], "-mlir-timing-display is 'flat'"),
        (["-emit-bytecode-version=3"], "bytecode version while not emitting bytecode"),
        (["-cse", "--pass-pipeline=any()"], "can't be used with individual pass options"),
        (["-hardware="], "-hardware needs a value"),
        (["-hardware=h10"], "there is no hardware called 'h10'\nshardwright-opt: note: the nearest are h100, "),
        (["-hardware=no.toml"], "no.toml: error: cannot read 'no.toml'"),
        (["-canonicalize=foo=1"], "no such option foo"),
        (["--pass-pipeline=builtin.module(cse,foo)"], "1:20: error: 'foo' does not refer to a registered pass"),
    ],
)
def test_wrong_arguments_are_refused(tool: Tool, arguments: list[str], message: str) -> None:
    assert message in tool.bad(*arguments)


def test_a_refused_pipeline_shows_where(tool: Tool) -> None:
    err = tool.bad("--pass-pipeline=builtin.module(cse,foo)")
    assert err.splitlines()[1:] == ["builtin.module(cse,foo)", " " * 19 + "^"]


def test_every_flag_has_a_setting() -> None:
    assert {flag.field for flag in FLAGS} | {"input", "passes"} == set(Settings.__slots__)
