"""Functions that ops name stay beside the graph: read, kept, written, and refused where they are not there."""

from __future__ import annotations

import re

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import load_source
from shardwright.ir.callees import Callees, symbols_of
from shardwright.ir.context import load_module, module_text
from shardwright.ir.fast.write import write_text
from shardwright.ir.graph import Graph
from shardwright.notation import modules
from shardwright.partition import localize, materialize
from shardwright.propagation import propagate
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS, differences

MESH = 'sdy.mesh @m = <["a"=2, "b"=4]>\n'
T = "tensor<8x8xf32>"
S = "tensor<f32>"


def function(name: str, body: str = "", type: str = T, argument: str = "", visibility: str = "private ") -> str:
    body = body or f"%0 = stablehlo.negate %y : {type}"
    return f"func.func {visibility}@{name}(%y: {type}{argument}) -> {type} {{\n {body}\n return %0 : {type}\n}}\n"


def main(*lines: str, given: str = '[{"a"}, {"b", ?}]', returned: str = "%0", result: str = T) -> str:
    body = "\n ".join(lines)
    sharding = f" {{sdy.sharding = #sdy.sharding<@m, {given}>}}"
    return f"func.func @main(%x: {T}{sharding}) -> {result} {{\n {body}\n return {returned} : {result}\n}}\n"


def custom(*called: str, target: str = "run", value: str = "%0", operand: str = "%x") -> str:
    names = ", ".join(f"@{name}" for name in called)
    return f"{value} = stablehlo.custom_call @{target}({operand}) {{called_computations = [{names}]}} : ({T}) -> {T}"


COMPARATOR = """func.func @larger(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %0 : tensor<i1>
}
"""
TOP_K = """%i = stablehlo.iota dim = 1 : tensor<8x8xi32>
 %v = stablehlo.constant dense<0.0> : tensor<f32>
 %n = stablehlo.constant dense<-1> : tensor<i32>
 %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %v, %n) {called_computations = [@larger]} : (tensor<8x8xf32>,
   tensor<8x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<8x2xf32>, tensor<8x2xi32>)"""
ON_A = ' {sdy.sharding = #sdy.sharding<@m, [{"a"}, {}]>}'
CALL = f"%0 = func.call @inner(%y) : ({T}) -> {T}"
PROGRAMS = {
    "comparator": MESH + COMPARATOR + main(TOP_K, returned="%0#0", result="tensor<8x2xf32>"),
    "transitively": MESH + function("inner") + function("f", CALL) + main(custom("f")),
    "two of three": MESH + function("f") + function("idle") + function("g") + main(custom("g", "f", "g")),
    "called as well": MESH
    + function("f")
    + main(custom("f", value="%1"), f"%0 = func.call @f(%1) : ({T}) -> {T}", given='[{"a"}, {}]'),
    "in a loop": MESH
    + function("f")
    + main(
        f"%0 = stablehlo.while(%z = %x) : {T} cond {{ %t = stablehlo.constant dense<true> : tensor<i1> "
        f"stablehlo.return %t : tensor<i1> }} do {{ {custom('f', value='%k', operand='%z')} "
        f"stablehlo.return %k : {T} }}"
    ),
    "a custom call of custom calls": MESH
    + function("inner")
    + function("f", custom("inner", operand="%y"))
    + main(custom("f"), "%u = stablehlo.sine %0 : " + T, returned="%u"),
}


def read(text: str) -> Graph:
    return modules.read(load_module(text))


def functions_of(text: str) -> dict[str, str]:
    """The functions of a module but `main`, as MLIR prints them."""
    module = load_module(text)
    functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
    named = {str(op.attributes["sym_name"]).strip('"'): str(op) for op in functions}
    return {name: text for name, text in named.items() if name != "main"}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_functions_that_ops_name_are_written_after_main_as_they_were(text: str) -> None:
    graph = read(text)
    given, written = functions_of(text), modules.text_of(graph)
    assert functions_of(written) == {name: given[name] for name in graph.callees.functions} != {}
    assert re.findall(r"func\.func (?:\w+ )?@(\w+)", written)[0] == "main"
    assert modules.text_of(read(written)) == written


@pytest.mark.oracle
def test_programs_are_propagated_around_them_as_the_cpp_does_it() -> None:
    answers = run_batch([(text, UP_TO_RESHARDS) for text in PROGRAMS.values()])
    for (name, text), answer in zip(PROGRAMS.items(), answers, strict=True):
        assert not isinstance(answer, ShardyFailure), f"{name}: {answer}"
        ours = propagate(read(text))
        assert differences(ours, answer) == [], name
        theirs = functions_of(answer)
        assert functions_of(modules.text_of(ours)).items() <= theirs.items(), name


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_every_stage_has_them(text: str) -> None:
    graph = propagate(read(text))
    explicit = materialize(graph).graph
    given = functions_of(text)
    expected = {name: given[name] for name in graph.callees.functions}
    for stage in (graph, explicit, localize(explicit)):
        assert functions_of(modules.text_of(stage)) == expected
    assert functions_of(modules.text_of(graph, shardings=False)) == expected


def test_what_they_say_of_shardings_is_kept_while_the_program_has_any() -> None:
    callee = function("f", f'%0 = sdy.sharding_constraint %y <@m, [{{}}, {{"b"}}]> : {T}', argument=ON_A)
    graph = propagate(read(MESH + callee + main(custom("f"))))
    written = functions_of(modules.text_of(graph))["f"]
    assert written == functions_of(MESH + callee)["f"]
    local = modules.text_of(localize(materialize(graph).graph))
    assert functions_of(local)["f"] == functions_of(f"func.func private @f(%y: {T}) -> {T} {{ return %y : {T} }}")["f"]
    assert "sdy.sharding" not in modules.text_of(graph, shardings=False).partition("@f(")[2]


def test_the_meshes_that_only_they_say_are_written() -> None:
    other = "sdy.mesh @none = <[]>\n"
    text = MESH + other + function("f", argument=" {sdy.sharding = #sdy.sharding<@none, [{}, {}]>}") + main(custom("f"))
    graph = read(text)
    del graph.meshes["none"]  # as where a program is put on the one mesh that it has
    written = modules.text_of(graph)
    assert functions_of(written) == functions_of(text)
    assert written.count("sdy.mesh @") == 2


def test_a_function_of_a_call_that_is_dead_goes_with_it() -> None:
    dead = custom("inner", value="%1")
    graph = read(MESH + function("inner") + function("f") + main(dead, custom("f")))
    assert set(functions_of(modules.text_of(graph))) == {"inner", "f"}
    assert set(functions_of(modules.text_of(propagate(graph)))) == {"f"}


def test_ops_that_nobody_knows_and_ops_inside_a_reduction_name_functions_too() -> None:
    reduction = (
        f"%c = stablehlo.constant dense<0.0> : {S}\n"
        f' %r = "stablehlo.reduce"(%x, %c) ({{ ^bb0(%p: {S}, %q: {S}):\n'
        f"  %s = stablehlo.custom_call @plus(%p, %q) {{called_computations = [@half]}} : ({S}, {S}) -> {S}\n"
        f"  stablehlo.return %s : {S} }}) {{dimensions = array<i64: 0, 1>}} : ({T}, {S}) -> {S}"
    )
    called = reduction.replace("%c", "%d").replace("%r", "%t")
    called = re.sub(r"stablehlo.custom_call @plus(.*?) \{.*?\} :", r"func.call @sum\1 :", called)
    foreign = f'%0 = "my.op"(%x) {{how = {{first = @"my f", else = [@g, 3]}}}} : ({T}) -> {T}'
    keep = f'"my.keep"(%r, %t) : ({S}, {S}) -> ()'
    both = f"func.func private @sum(%p: {S}, %q: {S}) -> {S} {{ return %q : {S} }}\n"
    text = MESH + function("half", type=S) + function('"my f"') + function("g") + both
    text += main(reduction, called, foreign, keep)
    graph = read(text)
    assert set(graph.callees.functions) == {"half", "my f", "g", "sum"}
    assert modules.write(graph).operation.verify()
    assert functions_of(modules.text_of(graph)) == functions_of(text)


def test_strings_targets_and_meshes_are_no_functions() -> None:
    manual = (
        f'%0 = sdy.manual_computation(%1) in_shardings=[<@m, [{{"a"}}, {{}}]>] out_shardings=[<@m, [{{"a"}}, {{}}]>] '
        f'manual_axes={{"a"}} (%z: tensor<4x8xf32>) {{ sdy.return %z : tensor<4x8xf32> }} : ({T}) -> {T}'
    )
    call = f'%1 = stablehlo.custom_call @f(%x) {{backend_config = "@f \\22@f\\22 [@f]"}} : ({T}) -> {T}'
    assert not read(MESH + function("f") + main(call, manual)).callees
    assert symbols_of('{a = @f, b = "@g", c = [@"h i", @j::@k]}') == {"f", "h i", "j", "k"}


def test_large_graphs_are_written_with_them_as_mlir_prints_them() -> None:
    lines = [f"%{n + 1} = stablehlo.sine %{n} : {T}" for n in range(300)]
    graph = read(MESH + function("f") + main(custom("f"), *lines, returned="%300"))
    text = write_text(graph, modules.PRINTERS)
    assert text is not None
    assert text == module_text(modules.write(graph))
    assert "func.func private @f" in text


def test_large_texts_that_have_them_are_read_as_a_whole() -> None:
    lines = [f"%{n + 1} = stablehlo.sine %{n} : {T}" for n in range(300)]
    padding = "\n" * (modules.LARGE + 1)
    with_call = MESH + main(custom("f"), *lines, returned="%300") + function("f") + padding
    assert modules.read_large(with_call.replace("called_computations = [@f]", "")) is not None
    assert modules.read_large(with_call) is None
    (text,) = load_source(with_call).graph.callees.functions.values()
    assert 'loc("-":306:1)' in text


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (MESH + main(custom("nope")), 3, "@nope is named by a custom call but not defined"),
        (MESH + main(custom("main")), 3, "@main calls itself"),
        (MESH + main(custom("f")) + function("f", f"%0 = func.call @main(%y) : ({T}) -> {T}"), 3, "@main calls itself"),
        (MESH + function("f") + main(custom("f", "gone", target="one")), 7, "@gone is named"),
    ],
)
def test_functions_that_cannot_be_called_are_refused_at_the_call(text: str, line: int, words: str) -> None:
    with pytest.raises(ShardingError, match=words) as error:
        load_source(text)
    diagnostic = error.value.diagnostic
    assert diagnostic.location == f"-:{line}"
    assert diagnostic.op.startswith("stablehlo.custom_call @")
    assert diagnostic.remedy


def test_nothing_is_kept_of_functions_that_are_only_called() -> None:
    graph = read(MESH + function("f") + main(f"%0 = func.call @f(%x) : ({T}) -> {T}"))
    assert graph.callees == Callees()
    assert graph.callees.without_shardings() is graph.callees
