"""`-verify-diagnostics`: what a file expects to be said of it, and what is said when it expects wrongly."""

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.opt.diagnostics import Emitted, Text
from shardwright.opt.expectations import Expectations
from tests.opt.tool import BROKEN, Tool

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
    assert tool.bad("-verify-diagnostics", stdin=text).startswith(
        "<stdin>:6:6: error: 'error' diagnostic emitted when expecting a 'warning'\n"
        "  // expected-warning @below {{undeclared}}\n     ^\n"
    )


def test_only_what_is_expected_can_be_asked_for(tool: Tool) -> None:
    assert tool.good("-verify-diagnostics=only-expected", stdin=BROKEN) == ""
    text = "// expected-error {{foo}}\n" + BROKEN
    assert "was not produced" in tool.bad("-verify-diagnostics=only-expected", stdin=text)


def check(text: str, *emitted: Emitted) -> list[str]:
    expectations = Expectations(Text("f", text))
    for one in emitted:
        expectations.take(one)
    return [complaint.partition("\n")[0] for complaint in expectations.finish()]


def test_expectations_of_unknown_positions_take_those_only() -> None:
    text = "// expected-remark @unknown {{somewhere}}"
    assert check(text, Emitted("remark", "somewhere else")) == []
    assert len(check(text, Emitted("remark", "somewhere", "f", 1, 1))) == 2
    assert len(check(text, Emitted("remark", "somewhere", "other", 1, 1))) == 2


def test_several_expectations_below_mean_the_next_line_without_one() -> None:
    text = "// expected-error @below {{a}}\n// expected-note @below {{b}}\nx\n// expected-warning @above {{c}}"
    told = (Emitted("error", "a", "f", 3, 1, (Emitted("note", "b", "f", 3, 2),)), Emitted("warning", "c", "f", 3, 1))
    assert check(text, *told) == []


def test_an_expectation_takes_every_diagnostic_that_it_matches() -> None:
    again = Emitted("error", "foo again", "f", 1, 1)
    assert check("// expected-error {{foo}}", again, again) == []


def test_regular_expressions_match_between_their_braces_only() -> None:
    text = "// expected-error-re {{a.c {{[0-9]+}} (}}"
    assert check(text, Emitted("error", "a.c 12 (", "f", 1, 1)) == []
    assert check(text, Emitted("error", "abc 12 (", "f", 1, 1)) != []


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("a {{b", "f:1:4: error: found start of regex with no end '}}'"), ("{{(}}", "f:1:4: error: invalid regex: ")],
)
def test_invalid_regular_expressions_are_reported(pattern: str, message: str) -> None:
    assert check(f"// expected-error-re {{{{{pattern}}}}}")[0].startswith(message)


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.integers(0, 3))
def test_exactly_the_lines_that_are_said_are_met(messages: list[str], wrong: int) -> None:
    text = "\n".join(f"line // expected-error {{{{{message}}}}}" for message in messages)
    told = [Emitted("error", message, "f", line + wrong, 1) for line, message in enumerate(messages, 1)]
    complaints = check(text, *told)
    assert (complaints == []) == (wrong == 0 or not messages)
