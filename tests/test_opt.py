"""`shardwright-opt`: lit-like inputs with RUN lines, its flags, its diagnostics, and the same text as MLIR's own passes."""

import io
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir, module_text, passmanager
from shardwright.opt.command import run
from shardwright.opt.diagnostics import Said, Text, said_of_error
from shardwright.opt.driver import class_name
from shardwright.opt.expectations import Expectations
from shardwright.opt.flags import FLAGS, MARKER, Settings, parse_arguments
from shardwright.opt.split import near_misses, split
from shardwright.passes import registry
from shardwright.passes.registry import Option, Options, Pass, passes

EXAMPLES = Path(__file__).parents[1] / "examples"

PROGRAM = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  %1 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
"""

AFTER_CSE = """module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
"""

SHARD = """module {
  shard.grid @g(shape = 2x4)
  func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0 = shard.sharding @g split_axes = [[0]] : !shard.sharding
    %1 = shard.shard %arg0 to %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}
"""

BROKEN = PROGRAM.replace("return %2", "return %3")


def ops(module: ir.Module, name: str) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == name:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _complain(module: ir.Module, options: Options) -> None:
    for op in ops(module, "stablehlo.multiply"):
        where = str(op.location).removeprefix("loc(").removesuffix(")").replace('"', "")
        raise ShardingError("no multiplication", op=op.name, location=where, cause="slow", remedy=options["remedy"])


def _break(module: ir.Module, options: Options) -> None:
    (function,) = ops(module, "func.func")
    function.attributes["function_type"] = ir.TypeAttr.parse("() -> ()", context=context())


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    toys = [
        Pass("sdy-toy-complain", "Refuses multiplications.", _complain, (Option("remedy", "add", "what to say"),)),
        Pass("sdy-toy-break", "Leaves an invalid module.", _break),
    ]
    monkeypatch.setattr(registry, "_passes", registry._passes | {toy.name: toy for toy in toys})


class Tool:
    """Runs the command in this process, in a folder of its own."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.capture = capture
        self.patch = patch
        self.status = 0
        self.raw = b""

    def file(self, name: str, text: str | bytes) -> str:
        (self.folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return name

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> tuple[str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        self.patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        self.status = run(arguments)
        self.raw, err = self.capture.readouterr()
        return self.raw.decode(errors="replace"), err.decode()

    def good(self, *arguments: str, stdin: str | bytes = "") -> str:
        out, err = self(*arguments, stdin=stdin)
        assert (self.status, err) == (0, "")
        return out

    def bad(self, *arguments: str, stdin: str | bytes = "") -> str:
        out, err = self(*arguments, stdin=stdin)
        assert (self.status, out) == (1, "")
        return err


@pytest.fixture
def tool(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.chdir(tmp_path)
    return Tool(tmp_path, capfdbinary, monkeypatch)


# Lit tests: what the RUN line says is run, and all diagnostics are as the comments expect.

LIT = {
    "verifier": """
// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

func.func @wrong_result(%arg0: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{type of return operand 0 ('tensor<8xf32>') doesn't match function result type}}
  return %arg0 : tensor<8xf32>
}

// -----

sdy.mesh @mesh = <["a"=2,"b"=2]>

func.func @unknown_axis(
  %arg0: tensor<8xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"c"}]>}) {
  // expected-error@-2 {{unknown axis name: "c"}}
  return %arg0 : tensor<8xf32>
}

// -----

func.func @good(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}

// -----

func.func @undeclared() -> tensor<8xf32> {
  // expected-error-re @below {{use of {{un[a-z]+}} SSA value {{(name|number)}}}}
  return %arg0 : tensor<8xf32>
}

// -----

func.func @above() -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
  // expected-error @above {{undeclared}}
}

// -----

func.func @here() {
  "foo.bar"() : () -> () // expected-error {{unregistered dialect}}
  return
}

// -----

// expected-error@+2 {{Dialect `foo' not found for custom op 'foo.bar'}}
// expected-note@+1 {{Available dialects: }}
foo.bar
""",
    "passes": """
// RUN: shardwright-opt %s -sdy-toy-complain='remedy=divide' -split-input-file=//--- -verify-diagnostics

func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @below {{'stablehlo.multiply' op no multiplication}}
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
//---
func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+3 {{no multiplication}}
  // expected-note @+2 {{slow}}
  // expected-note @+1 {{divide}}
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<8xf32>
  return %0 : tensor<8xf32>
}
""",
    "unregistered": """
// RUN: shardwright-opt %s --allow-unregistered-dialect --verify-diagnostics --canonicalize --cse
func.func @f() {
  "foo.bar"() {a = #foo.b<1>} : () -> ()
  return
}
""",
    "pipeline": """
// RUN: shardwright-opt %s --pass-pipeline='builtin.module(func.func(cse{},canonicalize{max-iterations=2}))' -verify-diagnostics=all
func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}
""",
    "shard": """
// RUN: shardwright-opt %s -cse -split-input-file -verify-diagnostics
shard.grid @g(shape = 2x4)
func.func @f(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<8xf32>
  return %0 : tensor<8xf32>
}
// -----
// expected-error @+1 {{unregistered dialect}}
"foo.bar"() : () -> ()
shard.grid @g(shape = 2x4)
""",
}


def arguments_of(text: str, file: str) -> list[str]:
    """The arguments of the RUN line."""
    line = re.search(r"// RUN: shardwright-opt (.*)", text)
    assert line is not None
    return [file if word == "%s" else word for word in shlex.split(line[1])]


@pytest.mark.parametrize("name", LIT)
def test_lit_inputs_say_what_they_expect(tool: Tool, name: str) -> None:
    file = tool.file("input.mlir", LIT[name])
    out = tool.good(*arguments_of(LIT[name], file))
    assert ("module {" in out) == (name != "passes")


@pytest.mark.parametrize("name", ["verifier", "passes"])
def test_lit_inputs_fail_if_any_expectation_changes(tool: Tool, name: str) -> None:
    for expectation in re.findall(r"// expected-error.*", LIT[name]):
        for changed in (expectation.replace("{{", "{{nothing such ", 1), "// nothing", "// expected-warning {{x}}"):
            file = tool.file("input.mlir", LIT[name].replace(expectation, changed, 1))
            _, err = tool(*arguments_of(LIT[name], file))
            assert tool.status == 1, changed
            assert "unexpected error: " in err or "was not produced" in err


def test_expectations_that_are_not_met_are_reported_as_mlir_does(tool: Tool) -> None:
    text = "// expected-error @+1 {{foo}}\nfunc.func @f() {\n  return\n}\n"
    assert tool.bad(tool.file("a.mlir", text), "-verify-diagnostics") == (
        'a.mlir:1:4: error: expected error "foo" was not produced\n// expected-error @+1 {{foo}}\n   ^~~\n'
    )


def test_unexpected_diagnostics_are_reported_as_mlir_does(tool: Tool) -> None:
    err = tool.bad("-verify-diagnostics", stdin=BROKEN)
    assert err == (
        "<stdin>:6:10: error: unexpected error: use of undeclared SSA value name\n"
        "  return %3 : tensor<8xf32>\n         ^\n"
    )


def test_a_diagnostic_of_another_kind_is_a_near_miss(tool: Tool) -> None:
    text = BROKEN.replace("return", "// expected-warning @below {{undeclared}}\n  return")
    assert "'error' diagnostic emitted when expecting a 'warning'" in tool.bad("-verify-diagnostics", stdin=text)


def test_only_what_is_expected_can_be_asked_for(tool: Tool) -> None:
    assert tool.good("-verify-diagnostics=only-expected", stdin=BROKEN) == ""
    text = "// expected-error {{foo}}\n" + BROKEN
    assert "was not produced" in tool.bad("-verify-diagnostics=only-expected", stdin=text)


def check(text: str, *said: Said) -> list[str]:
    expectations = Expectations(Text("f", text))
    for one in said:
        expectations.take(one)
    return [complaint.partition("\n")[0] for complaint in expectations.finish()]


def test_expectations_of_unknown_positions_take_those_only() -> None:
    text = "// expected-remark @unknown {{somewhere}}"
    assert check(text, Said("remark", "somewhere else")) == []
    assert len(check(text, Said("remark", "somewhere", "f", 1, 1))) == 2
    assert len(check(text, Said("remark", "somewhere", "other", 1, 1))) == 2


def test_several_expectations_below_mean_the_next_line_without_one() -> None:
    text = "// expected-error @below {{a}}\n// expected-note @below {{b}}\nx\n// expected-warning @above {{c}}"
    told = (Said("error", "a", "f", 3, 1, (Said("note", "b", "f", 3, 2),)), Said("warning", "c", "f", 3, 1))
    assert check(text, *told) == []


def test_an_expectation_takes_every_diagnostic_that_it_matches() -> None:
    again = Said("error", "foo again", "f", 1, 1)
    assert check("// expected-error {{foo}}", again, again) == []


def test_regular_expressions_match_between_their_braces_only() -> None:
    text = "// expected-error-re {{a.c {{[0-9]+}} (}}"
    assert check(text, Said("error", "a.c 12 (", "f", 1, 1)) == []
    assert check(text, Said("error", "abc 12 (", "f", 1, 1)) != []


@pytest.mark.parametrize(
    ("pattern", "message"), [("a {{b", "found start of regex with no end '}}'"), ("{{(}}", "invalid regex")]
)
def test_invalid_regular_expressions_are_reported(pattern: str, message: str) -> None:
    assert message in check(f"// expected-error-re {{{{{pattern}}}}}")[0]


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.integers(0, 3))
def test_exactly_the_lines_that_are_said_are_met(messages: list[str], wrong: int) -> None:
    text = "\n".join(f"line // expected-error {{{{{message}}}}}" for message in messages)
    told = [Said("error", message, "f", line + wrong, 1) for line, message in enumerate(messages, 1)]
    complaints = check(text, *told)
    assert (complaints == []) == (wrong == 0 or not messages)


# Diagnostics.


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
    assert said_of_error(error, text).render(text) == "f:2:3: error: bad\n\t shard.x %1\n\t ^\n"


@pytest.mark.parametrize("where", ["", "-"])
def test_a_diagnostic_without_a_position_names_the_file(where: str) -> None:
    text = Text("f", "a")
    assert said_of_error(ShardingError("bad", location=where), text).render(text) == "f: error: bad\n"


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
        found = parse_arguments(arguments)
    except ShardingError as error:
        assert error.diagnostic.message
    else:
        assert {name for name, _ in found.passes} <= {entry.name for entry in passes()}


def test_an_unreadable_file_and_a_place_that_cannot_be_written_are_diagnostics(tool: Tool) -> None:
    assert "cannot read 'nowhere.mlir'" in tool.bad("nowhere.mlir")
    assert "cannot open output file 'no/where'" in tool.bad("-", "-o", "no/where", stdin=PROGRAM)


# What is printed.


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


def test_version_and_dialects(tool: Tool) -> None:
    assert re.fullmatch(r"shardwright-opt \S+ \(MLIR of jaxlib \d\S+\)\n", tool.good("--version"))
    listed = tool.good("--show-dialects")
    assert listed.startswith("Available Dialects: ")
    assert {"builtin", "func", "sdy", "stablehlo", "shard"} <= set(listed.split(": ")[1].strip().split(","))


# Arguments.


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
        (["-output-split-marker="], {"output_split_marker": ""}),
    ],
)
def test_arguments_are_read_as_llvm_reads_them(arguments: list[str], changed: dict[str, object]) -> None:
    found = parse_arguments(arguments)
    expected = {name: getattr(Settings(), name) for name in Settings.__slots__} | changed
    assert {name: getattr(found, name) for name in Settings.__slots__} == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-csee"], "unknown command line argument '-csee'\nshardwright-opt: note: did you mean -cse?"),
        (["a", "b"], "too many positional arguments"),
        (["-o"], "-o needs a value"),
        (["-mlir-timing=maybe"], "-mlir-timing is 'maybe'"),
        (["-verify-diagnostics=none"], "-verify-diagnostics is 'none'"),
        (["-mlir-elide-elementsattrs-if-larger=x"], "it is no number"),
        (["-cse", "--pass-pipeline=any()"], "can't be used with individual pass options"),
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


# Splitting.


@given(st.lists(st.text("ab\n/ -", max_size=12).filter(lambda text: "// --" not in text), min_size=1, max_size=5))
def test_parts_and_their_lines_are_found_again(parts: list[str]) -> None:
    parts = [part + "\n" for part in parts]
    whole = "// -----\n".join(parts)
    chunks = split(whole.encode(), MARKER)
    assert [chunk.content.decode() for chunk in chunks] == parts
    lines = whole.split("\n")
    for chunk in chunks:
        in_place = chunk.in_place.decode().split("\n")[chunk.lines_before :]
        assert lines[chunk.lines_before :][: len(in_place) - 1] == in_place[:-1]


def test_markers_end_their_line_and_what_resembles_them_is_reported(tool: Tool) -> None:
    content = b"a\n// -----  \nb // -----\nc\n// ------\n// ----\n// ----- d\n// ---- text\n"
    assert [chunk.content for chunk in split(content, MARKER)][:2] == [b"a\n", b"b "]
    assert near_misses(content, MARKER) == [5, 6]
    _, err = tool("-split-input-file", stdin=PROGRAM + "// ----\n")
    assert err == "<stdin>:8:1: warning: near miss with file split marker\n// ----\n^\n"
    assert tool.status == 0
