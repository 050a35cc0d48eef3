"""What newer versions of the sdy dialect write and the installed jaxlib cannot parse."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.notation import modules
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify

pytestmark = pytest.mark.usefixtures("sums_only")

EXAMPLES = Path(__file__).parents[2] / "examples"
MESH = 'sdy.mesh @m = <["a"=2, "b"=2, "c"=4]>\n'
MAX = '#sdy.sharding<@m, [{"a"}, {}], unreduced=max{"b", "c":(1)2}>'
INNER = MAX.removeprefix("#sdy.sharding")


def program(body: str, argument: str = "", result: str = "%0", results: str = "tensor<8x8xf32>") -> str:
    given = f" {{sdy.sharding = {argument}}}" if argument else ""
    return (
        f"{MESH}func.func public @main(%x: tensor<8x8xf32>{given}) -> {results} {{\n"
        f"{body}\n  return {result} : tensor<8x8xf32>\n}}\n"
    )


def graph_of(text: str) -> Graph:
    prepared = prepare(text, "f.mlir")
    module = load_module(prepared, "f.mlir")
    verify(module, "f.mlir", prepared)
    return modules.read(module, "f.mlir")


def kinds(graph: Graph, value: int) -> dict[str, str]:
    sharding = graph.shardings[value]
    return {} if sharding is None else {p.axis.name: p.kind for p in sharding.partial}


PARTIAL = {"b": "max", "c": "max"}


def test_on_an_argument_and_a_result() -> None:
    graph = graph_of(program("", MAX, "%x", f"(tensor<8x8xf32> {{sdy.sharding = {MAX}}})"))
    assert kinds(graph, graph.main.block.arguments[0]) == PARTIAL
    (result,) = graph.main.result_shardings
    assert result == graph.shardings[graph.main.block.arguments[0]]


def test_on_the_results_of_an_op() -> None:
    body = (
        "%0:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<"
        f'[{INNER}, <@m, [{{}}, {{"a"}}]>]>}} %x, %x : tensor<8x8xf32>, tensor<8x8xf32>'
    )
    graph = graph_of(program(body, result="%0#0"))
    first, second = graph.main.block.ops[0].results
    assert kinds(graph, first) == PARTIAL
    assert repr(graph.shardings[second]) == "[{}, {a}]"


STATEMENTS = [
    f"sdy.sharding_constraint %x {INNER}",
    f"sdy.reshard %x {INNER}",
    f'sdy.all_slice [{{"a"}}, {{}}] %x\n    out_sharding={INNER}',
    'sdy.all_gather [{}, {"c":(2)2}] %x out_sharding=' + INNER,
    'sdy.all_to_all [{"a"}: 1->0] %x out_sharding=' + INNER,
    f"sdy.collective_permute %x out_sharding={INNER}",
]
OPERANDS = {
    "sdy.all_slice": '[{}, {}], unreduced=max{"b", "c":(1)2}',
    "sdy.all_gather": '[{"a"}, {"c":(2)2}], unreduced=max{"b", "c":(1)2}',
    "sdy.all_to_all": '[{}, {"a"}], unreduced=max{"b", "c":(1)2}',
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=[s.split()[0] for s in STATEMENTS])
@pytest.mark.parametrize("generic", [False, True])
def test_ops_into_a_sharding_with_a_kind(statement: str, generic: bool) -> None:
    op = statement.split()[0]
    if generic:
        statement = spelt_generically(statement)
    else:
        statement = f"{statement} {{foo = 3 : i32}} : tensor<8x8xf32>"
    argument = OPERANDS.get(op, '[{"a"}, {}], unreduced=max{"b", "c":(1)2}')
    graph = graph_of(program(f"  %0 = {statement}", f"#sdy.sharding<@m, {argument}>"))
    made = graph.main.block.ops[0]
    assert made.name == "sdy.sharding_constraint"
    assert kinds(graph, made.results[0]) == PARTIAL
    assert generic or made.signature.get("foo") == 3


def spelt_generically(statement: str) -> str:
    op = statement.split()[0]
    attributes = {
        "sdy.all_slice": 'slicing_axes = #sdy<list_of_axis_ref_lists[{"a"}, {}]>',
        "sdy.all_gather": 'gathering_axes = #sdy<list_of_axis_ref_lists[{}, {"c":(2)2}]>',
        "sdy.all_to_all": 'params = #sdy<all_to_all_param_list[{"a"}: 1->0]>',
    }
    key = "sharding" if op in ("sdy.sharding_constraint", "sdy.reshard") else "out_sharding"
    entries = [attributes[op]] if op in attributes else []
    return f'"{op}"(%x) <{{{", ".join([*entries, f"{key} = {MAX}"])}}}> : (tensor<8x8xf32>) -> tensor<8x8xf32>'


@pytest.mark.parametrize(
    "statement",
    [
        'sdy.all_reduce max {"b", "c":(1)2} %x out_sharding=<@m, [{"a"}, {}]>',
        'sdy.reduce_scatter max [{"b"}, {"c":(1)2}] %x out_sharding=<@m, [{"a", "b"}, {"c":(1)2}]>',
    ],
)
def test_collectives_out_of_a_sharding_with_a_kind_become_reshards(statement: str) -> None:
    graph = graph_of(program(f"  %0 = {statement} : tensor<8x8xf32>", MAX))
    made = graph.main.block.ops[0]
    assert made.name == "sdy.reshard"
    assert kinds(graph, made.operands[0]) == PARTIAL
    assert kinds(graph, made.results[0]) == {}
    assert made.signature.attributes == ()


def test_a_data_flow_edge() -> None:
    body = (
        f"  %1 = stablehlo.tanh %x : tensor<8x8xf32>\n  %0 = sdy.data_flow_edge %1 sharding={INNER} : tensor<8x8xf32>"
    )
    graph = graph_of(program(body))
    edge = graph.main.block.ops[1]
    assert edge.name == "sdy.data_flow_edge"
    assert kinds(graph, edge.results[0]) == PARTIAL
    written = modules.write(graph)
    assert written.operation.verify()
    again = modules.read(written)
    assert kinds(again, again.main.block.ops[1].results[0]) == PARTIAL


def test_an_alias() -> None:
    text = f"#partial = {MAX}\n#partial1 = #sdy.sharding<@m, [{{}}, {{}}]>\n" + program("", "#partial", "%x")
    graph = graph_of(text)
    assert kinds(graph, graph.main.block.arguments[0]) == PARTIAL


def test_a_sum_needs_no_carrier() -> None:
    argument = '#sdy.sharding<@m, [{"a"}, {}], unreduced=sum{"b"}>'
    text = program('  %0 = sdy.all_reduce sum {"b"} %x out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>', argument)
    assert "shardwright" not in prepare(text)
    graph = graph_of(text)
    assert kinds(graph, graph.main.block.arguments[0]) == {"b": "sum"}
    assert graph.main.block.ops[0].name == "sdy.all_reduce"


def test_lines_stay_where_they_are() -> None:
    argument = '#sdy.sharding<@m,\n  [{"a"},\n {}], unreduced=max{"b"}>'
    reduce = '  %0 = sdy.all_reduce max {\n"b"} %x out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>\n'
    text = program(reduce + "  %1 = sdy.reshard %0 <@m, [{}]> : tensor<8x8xf32>", argument)
    prepared = prepare(text, "f.mlir")
    assert prepared.count("\n") == text.count("\n")
    with pytest.raises(ShardingError, match=f"f.mlir:{text[: text.index('%1')].count(chr(10)) + 1}:"):
        load_module(prepared, "f.mlir")


def test_strings_and_comments_are_left_alone() -> None:
    text = program(
        '  %0 = stablehlo.custom_call @f(%x) {backend_config = "unreduced=max{1} #sdy.manual_axes<{}>"}'
        " : (tensor<8x8xf32>) -> tensor<8x8xf32>  // sdy.all_reduce max {",
        MAX,
    )
    prepared = prepare(text)
    assert 'backend_config = "unreduced=max{1} #sdy.manual_axes<{}>"' in prepared
    assert "// sdy.all_reduce max {" in prepared


def test_what_needs_nothing_comes_back_as_it_is() -> None:
    text = program("", '#sdy.sharding<@m, [{"a"}, {}], unreduced={"b"}>', "%x")
    assert prepare(text) is text
    assert prepare("unreduced=max{1}") == "unreduced=max{1}"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("([i, *])->([i, *]) {i=8}, custom", "([i, j])->([i, k]) {i=8, j=1, k=1}, custom"),
        ("([*, *])->([*, *])", "([i, j])->([k, l]) {i=1, j=1, k=1, l=1}"),
        ("([i, j])->([i, j]) {i=8, j=8}", "([i, j])->([i, j]) {i=8, j=8}"),
        ("([i, *])->([*, j]) {i=8, j=8} permutation={i}", "([i, k])->([l, j]) {i=8, j=8, k=1, l=1} permutation={i}"),
    ],
)
def test_a_dimension_without_factors_gets_one_of_size_1(rule: str, expected: str) -> None:
    body = f"  %0 = stablehlo.tanh %x {{sdy.sharding_rule = #sdy.op_sharding_rule<{rule}>}} : tensor<8x8xf32>"
    graph = graph_of(program(body))
    assert graph.main.block.ops[0].signature.text("sdy.sharding_rule") == f"#sdy.op_sharding_rule<{expected}>"


@pytest.mark.parametrize(
    "text",
    [
        '#sdy.all_to_all_param<{"a"}: 0->1>',
        '#sdy.all_to_all_param_list<[{"a"}: 0->1]>',
        '#sdy.axis_ref<"a":(1)2>',
        '#sdy.axis_ref_list<{"a"}>',
        '#sdy.dimension_sharding<{"a", ?}p1>',
        '#sdy.list_of_axis_ref_lists<[{"a"}, {}]>',
        '#sdy.manual_axes<{"a"}>',
        '#sdy.mesh_axis<"a"=2>',
        "#sdy.sub_axis_info<(1)2>",
        "#sdy.tensor_mapping<[i, j]>",
    ],
)
def test_attributes_in_the_spelling_with_a_dot(text: str) -> None:
    body = f"  %0 = stablehlo.tanh %x {{foo = {text}}} : tensor<8x8xf32>"
    name, value = text.removeprefix("#sdy.").removesuffix(">").split("<", 1)
    graph = graph_of(program(body))
    assert graph.main.block.ops[0].signature.text("foo") == f"#sdy<{name}{value}>"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (program("", '#sdy.sharding<@m, [{}, {}], unreduced=maximum{"b"}>', "%x"), 2, "unknown kind of reduction"),
        (
            program('  %0 = sdy.all_reduce mean {"b"} %x out_sharding=<@m, [{}, {}]> : tensor<8x8xf32>'),
            3,
            "unknown kind of reduction 'mean'",
        ),
        (
            program(
                f"  %0 = sdy.manual_computation(%x) in_shardings=[{INNER}] out_shardings=[<@m, [{{}}, {{}}]>]"
                ' manual_axes={"b"} (%y: tensor<8x8xf32>) {\n sdy.return %y : tensor<8x8xf32>\n'
                "} : (tensor<8x8xf32>) -> tensor<8x8xf32>"
            ),
            3,
            "where it cannot be held(.|\n)*the in_shardings of an sdy.manual_computation",
        ),
        (
            program(
                '  %0 = "sdy.manual_computation"(%x) <{in_shardings = #sdy.sharding_per_value<[<@m, [{}, {}]>]>,'
                f' manual_axes = #sdy<manual_axes{{"b"}}>,\n out_shardings = #sdy.sharding_per_value<[{INNER}]>}}> ({{\n'
                "^bb0(%y: tensor<8x8xf32>):\n sdy.return %y : tensor<8x8xf32>\n"
                "}) : (tensor<8x8xf32>) -> tensor<8x8xf32>"
            ),
            4,
            "where it cannot be held(.|\n)*the out_shardings of an sdy.manual_computation",
        ),
        (
            program(f"  %0 = stablehlo.tanh %x {{foo = {MAX}}} : tensor<8x8xf32>"),
            3,
            "where it cannot be held(.|\n)*belongs to the shardings of a value",
        ),
    ],
)
def test_what_cannot_be_carried_is_refused_at_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ShardingError, match=words) as error:
        prepare(text, "f.mlir")
    assert error.value.diagnostic.location == f"f.mlir:{line}"
    assert error.value.diagnostic.remedy


@pytest.mark.parametrize("cut", range(0, 160, 3))
def test_text_that_ends_anywhere_is_left_to_the_parser(cut: int) -> None:
    text = program('  %0 = sdy.all_reduce max {"b", "c":(1)2} %x out_sharding=<@m, [{"a"}, {}]> : tensor<8x8xf32>', MAX)
    prepared = prepare(text[: len(text) - cut])
    assert prepared.count("\n") == text[: len(text) - cut].count("\n")


WHOLE = program(
    '  %0 = sdy.all_reduce max {"b", "c":(1)2} %x out_sharding=<@m, [{"a"}, {}]> {sdy.sharding_rule = '
    "#sdy.op_sharding_rule<([i, *])->([i, *]) {i=8}>} : tensor<8x8xf32>\n  %1 = stablehlo.tanh %0 {sdy.sharding = "
    f"#sdy.sharding_per_value<[{INNER}, {INNER}]>}} : tensor<8x8xf32>\n"
    f'  %2 = "sdy.reshard"(%1) <{{sharding = {MAX}}}> : (tensor<8x8xf32>) -> tensor<8x8xf32>',
    MAX,
)


@given(
    st.integers(0, len(WHOLE)),
    st.integers(0, 40),
    st.sampled_from(["", "<", ">", "[", "}", '"', "unreduced=max{", "*"]),
)
@settings(max_examples=300, deadline=None)
def test_malformed_text_is_a_diagnostic_or_left_to_the_parser(start: int, length: int, put: str) -> None:
    text = WHOLE[:start] + put + WHOLE[start + length :]
    try:
        prepared = prepare(text, "f.mlir")
    except ShardingError as error:
        assert error.diagnostic.location.startswith("f.mlir:")
    else:
        assert prepared.count("\n") == text.count("\n")


def test_many_brackets_that_are_never_closed_cost_little() -> None:
    text = program("", "#sdy.sharding<@m, [{}, {}], unreduced=max{" * 5000, "%x")
    start = time.perf_counter()
    assert prepare(text) == text
    assert time.perf_counter() - start < 1


def test_partial_kinds_survive_reading_and_writing() -> None:
    body = f"  %0 = sdy.sharding_constraint %x {INNER} : tensor<8x8xf32>"
    graph = graph_of(program(body, MAX))
    again = modules.read(load_module(module_text(modules.write(graph))))
    assert [kinds(again, value) for value in range(2)] == [PARTIAL, PARTIAL]


@pytest.mark.long
def test_a_large_module_costs_a_scan(record_property: Callable[[str, object], None]) -> None:
    text = (EXAMPLES / "gpt32.mlir").read_text()
    start = time.perf_counter()
    prepared = prepare(text)
    middle = time.perf_counter()
    module = load_module(prepared)
    began = time.perf_counter()
    verify(module, "-", prepared)
    checked = time.perf_counter() - began
    assert prepared is text
    assert middle - start + checked < 0.2
    record_property("summary", f"gpt32: sdy preparation {1e3 * (middle - start):.0f} ms, checks {1e3 * checked:.0f} ms")
