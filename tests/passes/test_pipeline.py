"""Textual pipelines and options of passes, against MLIR's own parser where it knows the passes."""

import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwright.passes
import shardwright.passes.all
from shardwright.errors import Diagnostic, ShardingError
from shardwright.ir.context import context, ir, load_module, module_text, passmanager
from shardwright.passes import registry
from shardwright.passes.options import options_text, parse_options
from shardwright.passes.pipeline import PARSER, PipelineStep, parse_pipeline, pipeline_text, run_step, steps_of
from shardwright.passes.registry import Option, Pass, Pipeline, pass_named, passes
from shardwright.passes.upstream import is_upstream, run_native

UPSTREAM = [entry for entry in passes() if isinstance(entry, Pass) and is_upstream(entry.name)]
OPTIONS = (
    Option("flag", False, "a bool"),
    Option("count", 3, "a number"),
    Option("mode", "slow", "one of two", ("slow", "fast")),
    Option("names", "", "a list"),
)
CALLED: list[tuple[str, Mapping[str, Any]]] = []


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`toy` on the module, `toy-func` on functions, and `toys`, a pipeline of both with cse between."""

    def toy(name: str, on: str) -> Pass:
        return Pass(name, "A toy.", lambda _, options: CALLED.append((name, options)), OPTIONS, on)

    def expand(options: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        return ("toy", {"count": options["count"]}), ("cse", {}), ("toy-func", {})

    known = dict(registry._passes)
    known |= {"toy": toy("toy", "builtin.module"), "toy-func": toy("toy-func", "func.func")}
    known["toys"] = Pipeline("toys", "Toys.", expand, (Option("count", 5, "for the first"),))
    monkeypatch.setattr(registry, "_passes", known)
    CALLED.clear()
    yield
    CALLED.clear()


def refusal(text: str) -> Diagnostic:
    with pytest.raises(ShardingError) as caught:
        parse_pipeline(text)
    return caught.value.diagnostic


def toy_options(text: str) -> dict[str, Any]:
    return parse_options(pass_named("toy"), text)


def test_every_module_of_the_package_is_imported() -> None:
    modules = {module.name for module in pkgutil.walk_packages(shardwright.passes.__path__, "shardwright.passes.")}
    assert {"shardwright.passes.upstream", "shardwright.passes.all"} <= modules
    assert modules <= set(sys.modules)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", {}),
        ("flag", {"flag": True}),
        ("flag=true count=-4", {"flag": True, "count": -4}),
        ("flag=0 count=7", {"count": 7}),
        ("  flag=1    mode=fast  ", {"flag": True, "mode": "fast"}),
        ("names=a,b,c count=1", {"names": "a,b,c", "count": 1}),
        ("names=a,b,flag count=1", {"names": "a,b,flag", "count": 1}),
        ("names=a,count=1", {"names": "a,count=1"}),
        ("names='a b' flag", {"names": "a b", "flag": True}),
        ('names="x=1, y"', {"names": "x=1, y"}),
        ("names={a{b c} d}", {"names": "a{b c} d"}),
        ("names=f(a b),[c, d]", {"names": "f(a b),[c, d]"}),
        ("names= count=2", {"count": 2}),
        ("count=1 count=2", {"count": 2}),
        ("flag\n\tcount=9", {"flag": True, "count": 9}),
    ],
)
def test_options_are_read_as_mlir_reads_them(text: str, changed: dict[str, Any]) -> None:
    assert toy_options(text) == {"flag": False, "count": 3, "mode": "slow", "names": ""} | changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flags", "no such option flags"),
        ("flag=maybe", "'maybe' for option flag of toy"),
        ("count", "no value for option count of toy"),
        ("flag=0,count=7", "'0,count=7' for option flag of toy"),
        ("flag=1 , mode=fast", "no such option ,"),
        ("flag,mode=fast", "no such option flag,mode"),
        ("count=1.5", "'1.5' for option count of toy"),
        ("count=99999999999999999999", "'99999999999999999999' for option count of toy"),
        ("mode=medium", "'medium' for option mode of toy"),
        ("names={a", "malformed options"),
        ("names='a", "malformed options"),
        ("=3", "malformed options"),
        ("{flag}", "malformed options"),
    ],
)
def test_wrong_options_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ShardingError) as caught:
        toy_options(text)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.remedy


def test_options_print_in_order_of_their_names_and_all_unless_asked() -> None:
    toy = pass_named("toy")
    assert isinstance(toy, Pass)
    options = toy_options("flag names='a b'")
    assert options_text(toy, options) == "{count=3 flag=true mode=slow names={a b}}"
    assert options_text(toy, options, changed_only=True) == "{flag=true names={a b}}"
    assert options_text(toy, toy.defaults(), changed_only=True) == ""


def test_a_pipeline_keeps_the_order_of_its_passes_and_where_they_are_nested() -> None:
    steps = parse_pipeline(" builtin.module( toy{count=4} , func.func(cse, toy-func{flag}),any(cse),cse ) ")
    assert [(step.entry.name, step.anchors) for step in steps] == [
        ("toy", ("builtin.module",)),
        ("cse", ("builtin.module", "func.func")),
        ("toy-func", ("builtin.module", "func.func")),
        ("cse", ("builtin.module", "any")),
        ("cse", ("builtin.module",)),
    ]
    assert steps[0].options["count"] == 4
    assert steps[2].options["flag"] is True
    toy_text = "toy{count=4 flag=false mode=slow names=}"
    nested = "func.func(cse,toy-func{count=3 flag=true mode=slow names=})"
    assert pipeline_text(steps) == f"builtin.module({toy_text},{nested},any(cse),cse)"


def test_the_empty_pipeline_is_one() -> None:
    assert parse_pipeline("builtin.module()") == ()
    assert pipeline_text(()) == "builtin.module()"


def test_a_named_pipeline_stands_for_its_passes() -> None:
    steps = parse_pipeline("builtin.module(toys{count=8},toy)")
    assert [step.entry.name for step in steps] == ["toy", "cse", "toy-func", "toy"]
    assert [step.options["count"] for step in (steps[0], steps[3])] == [8, 3]
    assert steps[2].anchors == ("builtin.module", "func.func")


def test_by_its_name_alone_a_pass_for_functions_is_nested() -> None:
    assert steps_of("toy-func")[0].anchors == ("builtin.module", "func.func")
    assert steps_of("chlo-legalize-to-stablehlo")[0].anchors == ("builtin.module", "func.func")
    assert steps_of("cse")[0].anchors == ("builtin.module",)


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("toy", "expected pass pipeline to be wrapped with the anchor operation type", 1),
        ("func.func(cse)", "can't run 'func.func' pass manager on 'builtin.module' op", 1),
        ("  foo ()", "can't run 'foo' pass manager on 'builtin.module' op", 3),
        ("(toy)", "expected pass pipeline to be wrapped", 1),
        ("builtin.module(toy),toy", "expected pass pipeline to be wrapped", 1),
        ("", "expected pass pipeline to be wrapped", 1),
        ("builtin.module(toy,tyo)", "'tyo' does not refer to a registered pass or pass pipeline", 20),
        ("builtin.module(toy", "expected pass pipeline to be wrapped", 1),
        ("builtin.module(func.func(toy-func)", "encountered unbalanced parentheses while parsing pipeline", 26),
        ("builtin.module(any(any(cse),any(cse)", "encountered unbalanced parentheses while parsing pipeline", 33),
        ("builtin.module(toy cse)", "expected ',' after parsing pipeline", 20),
        ("builtin.module(toy,)", "'' does not refer to a registered pass or pass pipeline", 20),
        ("builtin.module(func.func())", "'' does not refer to a registered pass or pass pipeline", 26),
        ("builtin.module( )", "'' does not refer to a registered pass or pass pipeline", 17),
        ("builtin.module(toy))", "encountered extra closing ')' creating unbalanced parentheses", 19),
        ("builtin.module(toy),func.func(cse)", "encountered extra closing ')' creating unbalanced parentheses", 19),
        ("builtin.module(toy{flag)", "missing closing '}' while processing pass options", 19),
        ("builtin.module(toy{flog})", "no such option flog", 16),
        (
            "builtin.module(toy-func)",
            "Can't add pass 'toy-func' restricted to 'func.func' on a PassManager intended",
            16,
        ),
        ("builtin.module(func.func(toy))", "restricted to 'builtin.module' on a PassManager intended to run on", 26),
        ("builtin.module(func.func(toys))", "Can't add pass 'toy' restricted to 'builtin.module'", 26),
        ("builtin.module(scf.for(toy-func))", "Can't add pass 'toy-func' restricted to 'func.func'", 24),
        ("builtin.module(func.func(func.func(toy-func)))", "Can't add pass 'toy-func'", 36),
        ("builtin.module(" + "any(" * 60 + ")" * 61, "nested more than 32 deep", 144),
    ],
)
def test_a_malformed_pipeline_is_refused_at_its_column(text: str, message: str, column: int) -> None:
    diagnostic = refusal(text)
    assert message in diagnostic.message
    assert diagnostic.location == f"{PARSER}:1:{column}"


def test_positions_count_the_lines_of_a_pipeline() -> None:
    assert refusal("builtin.module(\n  toy,\n  foo)").location == f"{PARSER}:3:3"


@given(st.text("builtinmodulefcsy.(){},=-' \n", max_size=60), st.booleans())
def test_any_text_is_read_or_refused_with_a_position(text: str, is_wrapped: bool) -> None:
    given_text = f"builtin.module({text})" if is_wrapped else text
    try:
        steps = parse_pipeline(given_text)
    except ShardingError as error:
        assert error.diagnostic.location.startswith(f"{PARSER}:")
    else:
        assert parse_pipeline(pipeline_text(steps)) == steps


VALUES = {
    bool: st.booleans(),
    int: st.integers(-(10**17), 10**17),
    str: st.sampled_from(["", "a", "a,b", "x y", "f(a b)", "p{q r}"]),
}


@st.composite
def _steps(draw: st.DrawFn) -> PipelineStep:
    entry = draw(st.sampled_from([entry for entry in passes() if isinstance(entry, Pass)]))
    options = {
        option.name: draw(st.sampled_from(option.choices) if option.choices else VALUES[type(option.default)])
        for option in entry.options
    }
    anchors = ("builtin.module",) if entry.on in ("any", "builtin.module") else ("builtin.module", entry.on)
    return PipelineStep(
        entry, options, (*anchors, "func.func") if entry.on == "any" and draw(st.booleans()) else anchors
    )


@given(st.data())
def test_what_is_printed_is_read_again(data: st.DataObject) -> None:
    steps = tuple(data.draw(st.lists(_steps(), max_size=5)))
    assert parse_pipeline(pipeline_text(steps)) == steps


def _unwrapped(pipeline: str) -> str:
    """A pipeline with one blank between options: where MLIR leaves out an empty list it keeps the blanks around it."""
    return re.sub(r"(?<=\{) +| +(?=\})", "", re.sub(" +", " ", pipeline)).replace("{}", "")


@pytest.mark.parametrize("entry", UPSTREAM, ids=lambda entry: entry.name)
def test_mlir_prints_a_pipeline_of_its_passes_as_we_do(entry: Pass) -> None:
    (step,) = steps_of(entry.name)
    ours = pipeline_text([step])
    theirs = str(passmanager.PassManager.parse(ours, context=context()))
    assert _unwrapped(theirs) == ours


def test_lists_are_printed_as_mlir_prints_them() -> None:
    given = "builtin.module(inline{op-pipelines=func.func(cse),any(cse)},canonicalize{enable-patterns=a,b})"
    theirs = str(passmanager.PassManager.parse(given, context=context()))
    assert pipeline_text(parse_pipeline(given)) == _unwrapped(theirs)


MODULE = """
func.func private @unused() {
  return
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %x, %x : tensor<4xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    "pipeline",
    [
        "builtin.module(cse)",
        "builtin.module(canonicalize{max-iterations=1 top-down=false},symbol-dce)",
        "builtin.module(func.func(cse,canonicalize))",
        "builtin.module(inline{default-pipeline='canonicalize,cse'})",
        "builtin.module(symbol-privatize{exclude=main})",
        "builtin.module(stablehlo-legalize-to-vhlo,vhlo-legalize-to-stablehlo)",
        "builtin.module(func.func(chlo-legalize-to-stablehlo),any(func.func(cse)))",
        "builtin.module(func.func(any(cse)))",
    ],
)
def test_mlirs_passes_do_what_they_do_in_its_own_pass_manager(pipeline: str) -> None:
    ours, theirs = load_module(MODULE), load_module(MODULE)
    for step in parse_pipeline(pipeline):
        run_step(ours, step)
    passmanager.PassManager.parse(pipeline, context=context()).run(theirs.operation)
    assert module_text(ours) == module_text(theirs)


def test_our_passes_get_the_whole_module_and_all_options() -> None:
    module = load_module(MODULE)
    for step in parse_pipeline("builtin.module(func.func(toy-func{count=4}),toy{flag})"):
        run_step(module, step)
    assert [name for name, _ in CALLED] == ["toy-func", "toy"]
    assert [options for _, options in CALLED] == [toy_options("count=4"), toy_options("flag")]


def test_a_failing_pass_of_mlirs_names_the_position() -> None:
    text = MODULE.replace("return %2", '"foo.use"(%2) : (tensor<4xf32>) -> ()\n  return %2')
    with pytest.raises(ShardingError) as caught:
        run_native(load_module(text), "builtin.module(stablehlo-legalize-to-vhlo)")
    assert caught.value.diagnostic.location.startswith("-:")
    assert isinstance(caught.value.__cause__, ir.MLIRError)


def test_a_pipeline_that_mlir_refuses_is_a_diagnostic() -> None:
    with pytest.raises(ShardingError, match="MLIR refuses the pipeline"):
        run_step(load_module(MODULE), steps_of("canonicalize", {"region-simplify": "sideways"})[0])
