"""What is printed: modules, in every form, and what is told beside them."""

import re
from pathlib import Path

import pytest

from shardwright.ir.context import context, ir, module_text, passmanager
from shardwright.opt.driver import class_name
from shardwright.opt.flags import FLAGS
from shardwright.passes.registry import passes
from tests.opt.tool import AFTER_CSE, BROKEN, PROGRAM, SHARD, Tool

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("arguments", [["-canonicalize", "-cse"], ["-cse", "-symbol-dce"], ["-inline", "-cse"]])
@pytest.mark.parametrize("name", ["mlp", "decode", "gpt2"])
def test_examples_come_out_as_from_jaxlibs_own_pass_manager(tool: Tool, name: str, arguments: list[str]) -> None:
    path = EXAMPLES / f"{name}.mlir"
    pipeline = f"builtin.module({','.join(argument[1:] for argument in arguments)})"
    module = ir.Module.parse(path.read_text(), context=context())
    passmanager.PassManager.parse(pipeline, context=context()).run(module.operation)
    assert tool.good(str(path), *arguments) == module_text(module).rstrip("\n") + "\n"
    assert tool.good(str(path), f"--pass-pipeline={pipeline}") == module_text(module).rstrip("\n") + "\n"


def test_passes_run_in_the_order_given(tool: Tool) -> None:
    _, err = tool("--cse", "-canonicalize", "--cse", "-mlir-print-ir-after-all", stdin=PROGRAM)
    assert re.findall(r"IR Dump After (\w+) \(([\w-]+)\) //----- //\nmodule", err) == [
        ("CSEPass", "cse"),
        ("CanonicalizerPass", "canonicalize"),
        ("CSEPass", "cse"),
    ]


def test_standard_input_and_a_file_give_the_same(tool: Tool) -> None:
    file = tool.file("a.mlir", PROGRAM)
    assert tool.good("-cse", stdin=PROGRAM) == tool.good(file, "--cse") == AFTER_CSE


def test_a_file_is_written_when_all_went_well_only(tool: Tool) -> None:
    target = tool.folder / "out.mlir"
    assert tool.good("-cse", "-o", "out.mlir", stdin=PROGRAM) == ""
    assert target.read_text() == AFTER_CSE
    tool.bad("-cse", "-sdy-toy-complain", "-o", "out.mlir", stdin=PROGRAM)
    tool.bad("-split-input-file", "-o=out.mlir", stdin=f"{PROGRAM}// -----\n{BROKEN}")
    assert target.read_text() == AFTER_CSE
    assert [path.name for path in tool.folder.iterdir()] == ["out.mlir"]


def test_parts_are_printed_with_the_marker_between_them(tool: Tool) -> None:
    text = f"{PROGRAM}// -----\n{PROGRAM}"
    assert tool.good("-cse", "-split-input-file", stdin=text) == f"{AFTER_CSE}// -----\n{AFTER_CSE}"
    other = tool.good("-cse", "-split-input-file", "-output-split-marker=// ~~~", stdin=text)
    assert other == f"{AFTER_CSE}// ~~~\n{AFTER_CSE}"


def test_without_splitting_the_marker_is_a_comment(tool: Tool) -> None:
    other = PROGRAM.replace("@main", "@other").partition("\n")[2]
    assert tool.good(stdin=f"{PROGRAM}// -----\n{other}").count("func.func") == 2


def test_the_generic_form(tool: Tool) -> None:
    out = tool.good("-mlir-print-op-generic", stdin=PROGRAM)
    assert '"stablehlo.add"(%arg0, %arg0) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>' in out
    assert tool.good("-cse", stdin=out) == AFTER_CSE


def test_locations_name_the_file_and_can_stand_in_place(tool: Tool) -> None:
    file = tool.file("a.mlir", PROGRAM)
    assert 'loc("a.mlir":4:8)' in tool.good(file, "-mlir-print-debuginfo").partition("#loc =")[2]
    local = tool.good(file, "-mlir-print-debuginfo", "-mlir-print-local-scope")
    assert '%1 = stablehlo.add %arg0, %arg0 : tensor<8xf32> loc("a.mlir":4:8)' in local
    assert "loc" not in tool.good(file, "-mlir-print-debuginfo", "-strip-debuginfo", "-mlir-print-local-scope").replace(
        "loc(unknown)", ""
    )


def test_locations_for_people_name_the_file(tool: Tool) -> None:
    file = tool.file("a.mlir", PROGRAM)
    assert tool.good(file, "-mlir-pretty-debuginfo") == tool.good(file)
    out = tool.good(file, "-mlir-print-debuginfo", "-mlir-pretty-debuginfo")
    assert "%1 = stablehlo.add %arg0, %arg0 : tensor<8xf32> a.mlir:4:8\n" in out
    assert " -:" not in out


def test_regions_can_be_left_out_and_values_named_by_their_locations(tool: Tool) -> None:
    assert tool.good("-mlir-print-skip-regions", stdin=PROGRAM) == "module {...}\n"
    text = PROGRAM.replace("tensor<8xf32>\n  %1", 'tensor<8xf32> loc("sum")\n  %1')
    assert "%sum = stablehlo.add" in tool.good("-mlir-use-nameloc-as-prefix", stdin=text)


def test_long_resources_can_be_elided(tool: Tool) -> None:
    text = (
        "func.func @f() attributes {a = dense_resource<blob> : tensor<2xi32>} {\n  return\n}\n"
        '{-#\n  dialect_resources: {\n    builtin: {\n      blob: "0x040000000100000002000000"\n    }\n  }\n#-}\n'
    )
    assert '"0x040000000100000002000000"' in tool.good(stdin=text)
    assert "0x0400" not in tool.good("-mlir-elide-resource-strings-if-larger=4", stdin=text)


def test_long_constants_can_be_elided(tool: Tool) -> None:
    text = "func.func @f() -> tensor<4xi32> {\n  %0 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>\n"
    text += "  return %0 : tensor<4xi32>\n}\n"
    assert "[1, 2, 3, 4]" in tool.good("-mlir-elide-elementsattrs-if-larger=4", stdin=text)
    assert "__elided__" in tool.good("-mlir-elide-elementsattrs-if-larger", "3", stdin=text)


def test_bytecode_goes_out_and_comes_in(tool: Tool) -> None:
    tool.good("-cse", "-emit-bytecode", "-o", "a.mlirbc", stdin=PROGRAM)
    assert (tool.folder / "a.mlirbc").read_bytes().startswith(b"ML\xefR")
    assert tool.good("a.mlirbc") == AFTER_CSE
    tool("-emit-bytecode", stdin=PROGRAM)
    assert tool.raw.startswith(b"ML\xefR")
    assert tool.good("-cse", "-split-input-file", stdin=tool.raw) == AFTER_CSE


def test_the_shard_dialect_is_known_and_printed_in_its_own_syntax(tool: Tool) -> None:
    assert tool.good("-cse", stdin=SHARD) == SHARD
    assert '"shard.shard"' in tool.good("-mlir-print-op-generic", stdin=SHARD)
    tool("-emit-bytecode", stdin=SHARD)
    assert tool.good(stdin=tool.raw) == SHARD


def test_an_unregistered_dialect_is_refused_beside_ours(tool: Tool) -> None:
    text = SHARD.replace("    return", '    "foo.bar"() : () -> ()\n    return')
    err = tool.bad(stdin=text)
    assert err.startswith("<stdin>:6:")
    assert "operation being parsed with an unregistered dialect" in err
    assert '"foo.bar"() : () -> ()' in tool.good("-allow-unregistered-dialect", stdin=text)
    assert context().allow_unregistered_dialects


# What is told beside the output.


def test_modules_are_shown_before_and_after_the_passes_asked_for(tool: Tool) -> None:
    _, err = tool(
        "-canonicalize", "-cse", "-mlir-print-ir-before=cse", "-mlir-print-ir-after=canonicalize", stdin=PROGRAM
    )
    assert re.findall(r"IR Dump (.*) //-----", err) == [
        "After CanonicalizerPass (canonicalize)",
        "Before CSEPass (cse)",
    ]
    _, err = tool("-cse", "-mlir-print-ir-before-all", stdin=PROGRAM)
    assert err.startswith("// -----// IR Dump Before CSEPass (cse) //----- //\nmodule {\n")
    assert err.count("stablehlo.add") == 2


def test_what_is_shown_says_its_operation_when_modules_are_asked_for(tool: Tool) -> None:
    _, err = tool("-cse", "-mlir-print-ir-after-all", "-mlir-print-ir-module-scope", stdin=PROGRAM)
    assert err.startswith("// -----// IR Dump After CSEPass (cse) ('builtin.module' operation) //----- //\nmodule {\n")


def test_modules_are_shown_where_they_changed_or_a_pass_failed(tool: Tool) -> None:
    _, err = tool("-cse", "-cse", "-canonicalize", "-mlir-print-ir-after-change", stdin=PROGRAM)
    assert err.count("IR Dump") == 1
    _, err = tool("-cse", "-sdy-toy-complain", "-mlir-print-ir-after-failure", stdin=PROGRAM)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["After ToyComplainPass Failed (sdy-toy-complain)"]


def test_the_pipeline_is_shown_and_can_be_run_again(tool: Tool) -> None:
    out, err = tool("-symbol-dce", "-chlo-legalize-to-stablehlo", "-cse", "-dump-pass-pipeline", stdin=PROGRAM)
    assert err == (
        "Pass Manager with 3 passes:\nbuiltin.module(symbol-dce,func.func(chlo-legalize-to-stablehlo),cse)\n\n"
    )
    assert tool.good("--pass-pipeline", err.splitlines()[1], stdin=PROGRAM) == out


def test_neighbours_in_the_same_operation_are_one_pass(tool: Tool) -> None:
    _, err = tool("--pass-pipeline=any(func.func(cse,sccp),cse,sccp)", "-dump-pass-pipeline", stdin=PROGRAM)
    assert err == "Pass Manager with 3 passes:\nbuiltin.module(func.func(cse,sccp),cse,sccp)\n\n"


def test_what_took_longest_can_come_first(tool: Tool) -> None:
    _, err = tool("-cse", "-sccp", "-cse", "-mlir-timing", "-mlir-timing-display=list", stdin=PROGRAM)
    rows = re.findall(r"^ +(\d+\.\d+) \( *\d+\.\d%\)  (\w+)$", err, re.MULTILINE)
    assert {name for _, name in rows[:-2]} == {"Parser", "CSEPass", "SCCPPass", "Output"}
    assert [name for _, name in rows[-2:]] == ["Rest", "Total"]
    taken = [float(seconds) for seconds, _ in rows[:-2]]
    assert taken == sorted(taken, reverse=True)


def test_what_passes_took_adds_up_to_the_total(tool: Tool) -> None:
    _, err = tool("-cse", "-canonicalize", "-mlir-timing", stdin=PROGRAM)
    rows = re.findall(r"^ +(\d+\.\d+) \( *(\d+\.\d)%\)  (\w+)$", err, re.MULTILINE)
    assert [name for *_, name in rows] == ["Parser", "CSEPass", "CanonicalizerPass", "Output", "Rest", "Total"]
    assert sum(float(share) for _, share, name in rows if name != "Total") == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cse", "CSEPass"),
        ("sdy-basic-propagate", "BasicPropagationPass"),
        ("sdy-add-data-flow-edges", "AddDataFlowEdgesPass"),
        ("sdy-remove-all-gather-reduce-scatter-for-cmv1", "RemoveAllGatherReduceScatterForCMV1Pass"),
        ("stablehlo-legalize-qdq-to-quantized-op", "StablehloLegalizeQDQToQuantizedOpPass"),
    ],
)
def test_passes_are_called_as_mlir_calls_their_classes(name: str, expected: str) -> None:
    assert class_name(name) == expected


def test_help_lists_every_flag_and_every_pass_with_its_options(tool: Tool) -> None:
    out = tool.good("--help")
    assert all(f"  -{flag.name}" in out for flag in FLAGS)
    for entry in passes():
        assert f"  -{entry.name} " in out or f"  -{entry.name}\n" in out
        assert all(f"      {option.name}=" in out for option in entry.options)
    assert tool.good("-h") == out
    listed = tool.good("--list-passes")
    assert listed.startswith("Registered Passes:\n  -canonicalize ")
    single, several = listed.split("Registered Pass Pipelines:\n")
    assert "  -sdy-propagation-pipeline " in several
    assert "  -sdy-propagation-pipeline " not in single
    assert {*out.partition("PIPELINES:\n")[2].splitlines()} == {*single.splitlines()[1:], *several.splitlines()}


def test_version_and_dialects(tool: Tool) -> None:
    assert re.fullmatch(r"shardwright-opt \S+ \(MLIR of jaxlib \d\S+\)\n", tool.good("--version"))
    listed = tool.good("--show-dialects")
    assert listed.startswith("Available Dialects: ")
    assert {"builtin", "func", "sdy", "stablehlo", "shard"} <= set(listed.split(": ")[1].strip().split(","))
