"""Modules in the form of the mesh RFC: into the sdy dialect, back, and what each of the two refuses."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation import modules
from shardwright.notation.forms.texts import to_custom, to_generic
from shardwright.notation.rfc.dialect import RFC
from shardwright.notation.rfc.modules import export_module, import_module, looks_like
from shardwright.partition.materialize import materialize
from shardwright.propagation import propagate
from tests.notation.snippets import Snippet
from tests.notation.snippets_forum import FORUM
from tests.notation.snippets_slides import SLIDES
from tests.propagation.programs import random_program

ONE = "mesh.cluster @m(rank = 1, dim_sizes = [2])\n"
TWO = "mesh.cluster @m(rank = 2, dim_sizes = [2, 2])\n"
SDY = 'sdy.mesh @m = <["axis_0"=2, "axis_1"=2]>\n'


def to_sdy(text: str) -> str:
    module = load_module(to_generic(text, [RFC], "a.mlir"), "a.mlir")
    import_module(module, "a.mlir")
    return str(module)


def to_rfc(text: str, **options: bool) -> str:
    module = load_module(text, "a.mlir")
    export_module(module, "a.mlir", **options)
    return to_custom(str(module), [RFC])


def function(body: str, arguments: str = "%0: tensor<4x8xf32>", cluster: str = TWO) -> str:
    return f"{cluster}func.func @f({arguments}) attributes {{mesh_cluster = @m}} {{\n{body}\nreturn\n}}"


def sharded(lists: str, shape: str = "4x8") -> str:
    return f"tensor<{shape}xf32, #mesh.shard<{lists}>>"


def diagnostic(error: pytest.ExceptionInfo[ShardingError]) -> tuple[str, str, str]:
    refused = error.value.diagnostic
    return refused.message, refused.location, refused.op


ACCEPTED = [snippet for snippet in (*SLIDES, *FORUM) if not snippet.refused]


@pytest.mark.parametrize("snippet", ACCEPTED, ids=lambda snippet: snippet.origin)
def test_into_sdy_and_back_loses_nothing(snippet: Snippet) -> None:
    hub = to_sdy(snippet.module)
    if "mesh.cluster" not in hub:
        assert not looks_like(hub)
        canonical = to_rfc(hub)
        assert to_sdy(canonical) == hub
        assert to_rfc(to_sdy(canonical)) == canonical


def _closed(text: str) -> str:
    text = re.sub(r", replicated=\{[^}]*\}", "", text)
    return re.sub(r"(, )?\?\}(p\d)?|\}p\d", "}", text)


def _open(text: str) -> str:
    """Every dimension open: the sharding is a hint."""
    return re.sub(
        r"(@\w+, \[)([^\]]*)\]",
        lambda match: (
            match[1] + re.sub(r"\{(.*?)\}", lambda dim: f"{{{dim[1]}, ?}}" if dim[1] else "{?}", match[2]) + "]"
        ),
        _closed(text),
    )


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(st.integers(0, 5000), st.booleans())
def test_random_programs_go_to_the_rfc_and_back(seed: int, hint: bool) -> None:
    text = random_program(seed).replace("sdy.reshard", "sdy.sharding_constraint")  # what it says without collectives
    source = str(load_module(_open(text) if hint else _closed(text)))
    try:
        canonical = to_rfc(source)
    except ShardingError as error:
        assert error.diagnostic.message.startswith(("the RFC cannot express", "a declaration has shardings"))
        assert error.diagnostic.location.startswith("a.mlir:")
        return
    again = to_sdy(canonical)
    assert to_rfc(again) == canonical
    if source != again:  # a constraint that only the return reads has become the sharding of the result
        assert source.count("sdy.sharding_constraint") > again.count("sdy.sharding_constraint")


@pytest.mark.parametrize(
    "origin", ["RFC, 1-D weight stationary, tensors annotated", "slides, 2-D weight stationary, tensors annotated"]
)
def test_our_explicit_stage_of_a_walkthrough_is_an_explicit_program_of_the_rfc(origin: str) -> None:
    snippet = next(snippet for snippet in ACCEPTED if snippet.origin == origin)
    graph = modules.read(load_module(to_sdy(snippet.module)))
    explicit = str(modules.write(materialize(propagate(graph)).graph))
    text = to_rfc(explicit)
    assert re.search(r"= mesh\.(all_gather|all_reduce|reduce_scatter|all_to_all|local_split) ", text)
    assert "mesh.annotate" not in text
    assert to_sdy(text) == explicit


def test_ops_go_back_to_mhlo_on_request() -> None:
    snippet = next(snippet for snippet in ACCEPTED if snippet.origin.endswith("materialized"))
    hub = to_sdy(snippet.module)
    text = to_rfc(hub, mhlo=True)
    assert "stablehlo." not in text
    assert to_sdy(text) == hub


@pytest.mark.parametrize(
    ("text", "rfc"),
    [
        ("mesh.cluster @m(rank = 1)", True),
        ('"mesh.cluster"() {sym_name = "m"} : () -> ()', True),
        ("func.func @f() attributes {mesh_cluster = @m} { return }", True),
        ("func.func private @f(tensor<4xf32, #mesh.shard<[[0]]>>)", True),
        ("%1 = mesh.annotate %0 {sharding = []} : tensor<4xf32>", True),
        ("%1 = mesh.all_gather %0 on @m mesh_axes = [0] gather_axis = 0 : tensor<4xf32> -> tensor<8xf32>", False),
        ("mesh.mesh @m(shape = 2)", False),
        ("// mesh.cluster @m(rank = 1)\nmesh.mesh @m(shape = 2)", False),
        ('sdy.mesh @mesh = <["x"=2]> loc("mesh.annotate")', False),
    ],
)
def test_it_is_told_from_upstream_by_what_only_it_has(text: str, rfc: bool) -> None:
    assert looks_like(text) is rfc


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("%1 = mesh.annotate %0 {sharding = [[0], [], [], []]} : tensor<4x8xf32>", 3, "4 lists of axes"),
        ("%1 = mesh.annotate %0 {sharding = [[0], [0]]} : tensor<4x8xf32>", 3, "mesh axis 0 is given twice"),
        ("%1 = mesh.annotate %0 {sharding = [[2]]} : tensor<4x8xf32>", 3, "mesh axis 2 is out of range"),
        ("%1 = mesh.annotate %0 {sharding = [[-1]]} : tensor<4x8xf32>", 3, "mesh axis -1 is negative"),
        (
            "%1 = mesh.annotate %0 {sharding = [[0]]} : tensor<4x8xf32> -> tensor<4x9xf32>",
            3,
            "mesh.annotate leads from",
        ),
        ("%1 = mesh.annotate %0 {#mesh.shard<@n, [[0]]>} : tensor<4x8xf32>", 3, "there is no cluster @n"),
        ("%1 = mesh.annotate %0 {required = 3, sharding = []} : tensor<4x8xf32>", 3, "'required' is not true or false"),
        ("%1 = mesh.anotate %0 {sharding = []} : tensor<4x8xf32>", 3, "unregistered operation 'mesh.anotate'"),
        (
            f"%1 = mesh.local_split %0 {{sharding = [[], [0]]}} : {sharded('[[0]]')} -> {sharded('[[0], [0]]')}",
            3,
            "mesh axis 0 is given twice",
        ),
        (
            f"%1 = mesh.local_split %0 {{sharding = [[0]]}} : {sharded('[[], [], [0]]')} -> {sharded('[[0]]')}",
            3,
            "mesh.local_split splits along axes [0] that its operand uses already",
        ),
        (
            f"%1 = mesh.all_gather %0 {{mesh_axis = [[1]]}} : {sharded('[[0]]')} -> tensor<4x8xf32>",
            3,
            "the types of mesh.all_gather do not agree",
        ),
        (
            f"%1 = mesh.all_gather %0 {{mesh_axis = [[0]], tensor_axis = [1]}} : {sharded('[[0]]')} -> tensor<4x8xf32>",
            3,
            "the types of mesh.all_gather do not agree",
        ),
        (
            f"%1 = mesh.all_reduce %0 {{mesh_axis = [1]}} : {sharded('[[], [], [0]]')} -> tensor<4x8xf32>",
            3,
            "the types of mesh.all_reduce do not agree",
        ),
        (
            f'%1 = mesh.all_reduce %0 {{mesh_axis = [0], reduction = "max"}} : {sharded("[[], [], [0]]")} -> tensor<4x8xf32>',
            3,
            "mesh.all_reduce reduces by 'max'",
        ),
        (
            f"%1 = mesh.reduce_scatter %0 {{mesh_axis = [0], tensor_axis = 2 : i64}} : {sharded('[[], [], [0]]')} -> {sharded('[[0]]')}",
            3,
            "tensor_axis 2 of mesh.reduce_scatter is no dimension",
        ),
        (
            f"%1 = mesh.reduce_scatter %0 {{mesh_axis = [0], tensor_axis = 1 : i64}} : {sharded('[[], [], [0]]')} -> {sharded('[[0]]')}",
            3,
            "the types of mesh.reduce_scatter do not agree",
        ),
        (
            f"%1 = mesh.all_to_all %0 {{mesh_axis = [0], tensor_axis = [0, 0]}} : {sharded('[[0]]')} -> {sharded('[[], [0]]')}",
            3,
            "tensor_axis [0, 0] of mesh.all_to_all does not name two dimensions",
        ),
        (
            f"%1 = mesh.all_to_all %0 {{mesh_axis = [1], tensor_axis = [0, 1]}} : {sharded('[[0]]')} -> {sharded('[[], [0]]')}",
            3,
            "the types of mesh.all_to_all do not agree",
        ),
        (
            f"%1 = mesh.collective_permute %0 {{mesh_axis = 1}} : {sharded('[[0]]')} -> {sharded('[[0]]')}",
            3,
            "the types of mesh.collective_permute do not agree",
        ),
        ("%1 = mesh.idx(2)", 3, "mesh axis 2 is out of range"),
        ("%1 = mesh.idx : index", 3, "'mesh.idx' op names no axis"),
    ],
)
def test_what_breaks_a_rule_is_refused_at_its_op(body: str, line: int, words: str) -> None:
    with pytest.raises(ShardingError) as error:
        to_generic(function(body), [RFC], "a.mlir")
    message, location, op = diagnostic(error)
    assert words in message
    assert location.startswith(f"a.mlir:{line}:")
    assert op.startswith("mesh.")


@pytest.mark.parametrize("text", ["mesh.cluster @m(rank = 0)", "mesh.cluster @m(rank = 1, dim_sizes = [2, 2])"])
def test_a_cluster_has_an_axis_and_no_more_sizes_than_axes(text: str) -> None:
    with pytest.raises(ShardingError, match="a cluster of rank"):
        to_generic(text, [RFC])


def test_an_annotation_becomes_what_it_is_in_sdy() -> None:
    text = to_sdy(
        f"""{TWO}func.func @f(%0: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {{mesh_cluster = @m}} {{
        %1 = mesh.annotate %0 {{sharding = [[0, 1]], required = false}} : tensor<4x8xf32>
        %2 = stablehlo.negate %1 : tensor<4x8xf32>
        %3 = mesh.annotate %2 {{sharding = [[], [], [0]]}} : tensor<4x8xf32>
        %4 = mesh.annotate %3 {{sharding = [[0]], as_result = false, required = false}} : tensor<4x8xf32>
        %5 = stablehlo.negate %4 : tensor<4x8xf32>
        %6 = mesh.annotate %5 {{sharding = [[], [1]], as_result = false}} : tensor<4x8xf32>
        return %6 : tensor<4x8xf32>
        }}"""
    )
    assert '%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0", "axis_1", ?}, {?}]>}' in text
    assert '-> (tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"axis_1"}]>})' in text
    assert '{sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}], unreduced={"axis_0"}>]>}' in text
    assert '%1 = sdy.sharding_constraint %0 <@m, [{"axis_0", ?}, {?}]>' in text
    assert "stablehlo.negate %1 :" in text
    assert "mesh" not in text.replace("sdy.mesh", "")


def test_two_annotations_of_one_value_that_differ_are_refused_with_both_lines() -> None:
    body = "\n".join(
        f"%{n} = mesh.annotate %{n - 1} {{sharding = {lists}}} : tensor<4x8xf32>"
        for n, lists in ((1, "[[0]]"), (2, "[[1]]"))
    )
    with pytest.raises(ShardingError) as error:
        to_sdy(function(body))
    message, location, op = diagnostic(error)
    assert (message, location, op) == ("a value is annotated as [[0]] and as [[1]]", "a.mlir:4", "mesh.annotate")
    assert "a.mlir:3" in error.value.diagnostic.cause


def test_a_requirement_wins_over_a_hint_of_the_same() -> None:
    body = "%1 = mesh.annotate %0 {required = false, sharding = [[0]]} : tensor<4x8xf32>\n%2 = mesh.annotate %1 {sharding = [[0]]} : tensor<4x8xf32>"
    assert '%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0"}, {}]>}' in to_sdy(function(body))


def test_names_of_axes_survive_both_ways() -> None:
    hub = 'sdy.mesh @m = <["data"=2, "model"=4]>\nfunc.func @f(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"model"}]>}) {\nreturn\n}'
    hub = str(load_module(hub))
    text = to_rfc(hub)
    assert 'mesh.cluster @m(rank = 2, dim_sizes = [2, 4]) {axis_names = ["data", "model"]}' in text
    assert to_sdy(text) == hub


def test_a_second_mesh_is_named_where_it_is_used() -> None:
    hub = """sdy.mesh @a = <["axis_0"=4]>
sdy.mesh @b = <["axis_0"=2, "axis_1"=2]>
func.func @f(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@a, [{"axis_0"}]>}, %y: tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"axis_1"}]>}) {
return
}"""
    text = to_rfc(hub)
    assert "mesh_cluster = @a" in text
    assert "sharding = #mesh.shard<@b, [[1]]>" in text
    again = to_sdy(text)
    assert '%arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@b, [{"axis_1"}]>}' in again
    assert to_rfc(again) == text


def test_unknown_sizes_are_refused_only_where_something_is_laid_out() -> None:
    cluster = "mesh.cluster @m(rank = 1000000000, dim_sizes = [0, 2])\n"
    assert "dim_sizes = [0, 2]" in to_sdy(function("", cluster=cluster))
    with pytest.raises(ShardingError) as error:
        to_sdy(function("%1 = mesh.annotate %0 {sharding = [[1]]} : tensor<4x8xf32>", cluster=cluster))
    message, location, _ = diagnostic(error)
    assert (message, location) == ("cluster @m has axes of unknown size", "a.mlir:1")


@pytest.mark.parametrize(
    ("text", "message", "location"),
    [
        ("func.func @f() attributes {mesh_cluster = @n} {\nreturn\n}", "there is no cluster @n", "a.mlir:1"),
        (
            "func.func @f(%0: tensor<8xf32>) {\n%1 = mesh.annotate %0 {sharding = [[0]]} : tensor<8xf32>\nreturn\n}",
            "a sharding names no cluster",
            "a.mlir:2",
        ),
        (
            function("%1 = stablehlo.negate %0 {sharding = [[5]]} : tensor<4x8xf32>"),
            "there is no mesh axis 5",
            "a.mlir:3",
        ),
        (
            function("%1 = stablehlo.negate %0 {sharding = [[], [], [0]]} : tensor<4x8xf32>"),
            "a sharding option of 3 lists is given to an op of 2 loops",
            "a.mlir:3",
        ),
        (
            function(
                f"%1 = mesh.collective_permute %0 : {sharded('[[0]]')} -> {sharded('[[], [0]]')}",
                f"%0: {sharded('[[0]]')}",
            ),
            "a permutation does not lead from [[0]] to [[], [0]]",
            "a.mlir:3",
        ),
        (
            function(
                '%1 = "mesh.idx"() {axis = 0 : index} : () -> index\n%2 = mesh.annotate %0 {sharding = []} : tensor<4x8xf32>'
            ),
            "mesh.idx stands in a program with shardings",
            "a.mlir:3",
        ),
        (
            f"{ONE}func.func @f() {{\n%1 = mesh.size {{axis = 0 : index}} : index\nreturn\n}}",
            "mesh.size asks for an axis of no cluster",
            "a.mlir:3",
        ),
        (function("", f"%0: {sharded('[[7]]')}"), "there is no mesh axis 7", "a.mlir:2"),
        (
            function("", f"%0: {sharded('[[0], [], [], [1]]')}"),
            "4 lists of axes are given to a tensor of 2 dimensions",
            "a.mlir:2",
        ),
        (
            'mesh.cluster @"a b"(rank = 1, dim_sizes = [2])',
            "cluster @\"a b\" has a name that cannot be carried over: 'a b'",
            "a.mlir:1",
        ),
        (
            'mesh.cluster @m(rank = 1, dim_sizes = [2]) {axis_names = ["a", "b"]}',
            "cluster @m has 1 axes and 2 axis_names",
            "a.mlir:1",
        ),
        (
            "mesh.cluster @m(rank = 1, dim_sizes = [2]) {axis_names = [1]}",
            "axis_names is [1], not a list of strings",
            "a.mlir:1",
        ),
        (
            function('%1 = "mhlo."(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>'),
            "the op 'mhlo.' has no name",
            "a.mlir:3",
        ),
        (
            function(
                '%1 = "mhlo.fusion"(%0) ({\n^bb0(%x: tensor<4x8xf32>):\nmhlo.return %x : tensor<4x8xf32>\n}) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<4x8xf32>) -> tensor<4x8xf32>'
            ),
            "there is no counterpart of mhlo.fusion",
            "a.mlir:3",
        ),
    ],
)
def test_what_sdy_cannot_hold_is_refused_at_its_line(text: str, message: str, location: str) -> None:
    with pytest.raises(ShardingError) as error:
        to_sdy(text)
    assert diagnostic(error)[:2] == (message, location)


def constraint(text: str) -> str:
    return f"{SDY}func.func @f(%0: tensor<4x8xf32>) {{\n%1 = sdy.sharding_constraint %0 <@m, {text}> : tensor<4x8xf32>\nreturn\n}}"


MANUAL = f"""{SDY}func.func @f(%0: tensor<4x8xf32>) {{
%1 = sdy.manual_computation(%0) in_shardings=[<@m, [{{"axis_0"}}, {{}}]>] out_shardings=[<@m, [{{"axis_0"}}, {{}}]>] manual_axes={{"axis_0"}} (%b: tensor<2x8xf32>) {{
sdy.return %b : tensor<2x8xf32>
}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
return
}}"""


@pytest.mark.parametrize(
    ("text", "message", "location"),
    [
        (
            constraint('[{"axis_0":(1)2, ?}p1, {?}]').replace("=2, ", "=4, ", 1),
            "the RFC cannot express priorities",
            "a.mlir:3",
        ),
        (
            constraint('[{"axis_0":(1)2}, {}]').replace("=2, ", "=4, ", 1),
            "the RFC cannot express parts of a mesh axis",
            "a.mlir:3",
        ),
        (
            constraint('[{"axis_0", ?}, {}]'),
            "the RFC cannot express a sharding of which only some dimensions are open",
            "a.mlir:3",
        ),
        (
            constraint('[{?}, {?}], replicated={"axis_0"}'),
            "the RFC cannot express axes that open dimensions must not use",
            "a.mlir:3",
        ),
        (MANUAL, "the RFC cannot express sdy.manual_computation", "a.mlir:3"),
        (
            f"{SDY}func.func @f(%0: tensor<4x8xf32>) {{\nsdy.sharding_group %0 group_id=1 : tensor<4x8xf32>\nreturn\n}}",
            "the RFC cannot express sdy.sharding_group",
            "a.mlir:3",
        ),
        (
            'sdy.mesh @m = <["x"=2], device_ids=[1, 0]>',
            "the RFC cannot express a mesh whose devices are reordered: @m",
            "a.mlir:1",
        ),
        ("sdy.mesh @m = <[], device_ids=[0]>", "the RFC cannot express a mesh of no axes: @m", "a.mlir:1"),
        (
            f'{SDY}func.func @f(%0: tensor<4x8xf32>) {{\n%1 = "shardwright.constraint"(%0) {{sharding = "x"}} : (tensor<4x8xf32>) -> tensor<4x8xf32>\nreturn\n}}',
            "the RFC cannot express shardwright.constraint",
            "a.mlir:3",
        ),
        (
            f'{SDY}func.func @f(%0: tensor<4x8xf32>) {{\n%1 = stablehlo.negate %0 {{shardwright.shardings = ["x"]}} : tensor<4x8xf32>\nreturn\n}}',
            "the RFC cannot express stablehlo.negate",
            "a.mlir:3",
        ),
        (
            f'{SDY}func.func @f(%0: tensor<4x8xf32> {{shardwright.sharding = "x"}}) {{\nreturn\n}}',
            "the RFC cannot express the sharding of argument 0",
            "a.mlir:2",
        ),
        (
            f'{SDY}func.func @f(%0: tensor<4x8xf32>) -> (tensor<4x8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{"axis_0"}}]>}}) {{\n'
            '%1 = sdy.all_slice [{"axis_0"}, {}] %0 out_sharding=<@m, [{"axis_0"}, {}]> : tensor<4x8xf32>\n'
            "return %1 : tensor<4x8xf32>\n}",
            "result 0 is said to be [[], [0]], and what is returned is [[0]]",
            "a.mlir:4",
        ),
        (
            f"{SDY}func.func @f(%0: tensor<4x8xf32>) {{\n"
            '%1 = sdy.all_slice [{"axis_0"}, {}] %0 out_sharding=<@m, [{"axis_0"}, {}]> : tensor<4x8xf32>\n'
            "%2 = stablehlo.negate %1 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{?}, {?}]>]>} : tensor<4x8xf32>\nreturn\n}",
            "the RFC cannot express open dimensions in an explicit program",
            "a.mlir:4",
        ),
    ],
)
def test_what_the_rfc_cannot_say_is_refused_at_its_op(text: str, message: str, location: str) -> None:
    with pytest.raises(ShardingError) as error:
        to_rfc(text)
    assert diagnostic(error)[:2] == (message, location)
    assert error.value.diagnostic.remedy


def test_an_explicit_program_with_every_collective_constants_and_a_loop_survives() -> None:
    hub = str(
        load_module(
            """sdy.mesh @m = <["axis_0"=2, "axis_1"=2]>
func.func @f(%x: tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0"}, {"axis_1"}, {}]>}) -> (tensor<8x8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"axis_0", "axis_1"}, {}, {}]>}) {
  %c = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"axis_0"}, {"axis_1"}, {}]>]>} dense<1.0> : tensor<8x8x8xf32>
  %n = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@m, []>]>} dense<3> : tensor<i32>
  %0 = stablehlo.add %x, %c {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"axis_0"}, {"axis_1"}, {}]>]>} : tensor<8x8x8xf32>
  %1 = sdy.all_to_all [{"axis_1"}: 1->2] %0 out_sharding=<@m, [{"axis_0"}, {}, {"axis_1"}]> : tensor<8x8x8xf32>
  %2 = sdy.all_gather [{}, {}, {"axis_1"}] %1 out_sharding=<@m, [{"axis_0"}, {}, {}]> : tensor<8x8x8xf32>
  %3:2 = stablehlo.while(%i = %n, %a = %2) : tensor<i32>, tensor<8x8x8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, []>, <@m, [{"axis_0"}, {}, {}]>]>}
  cond {
    %t = stablehlo.compare LT, %i, %n {sdy.sharding = #sdy.sharding_per_value<[<@m, []>]>} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %s = stablehlo.add %a, %a {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"axis_0"}, {}, {}]>]>} : tensor<8x8x8xf32>
    stablehlo.return %i, %s : tensor<i32>, tensor<8x8x8xf32>
  }
  %4 = sdy.all_slice [{}, {"axis_1"}, {}] %3#1 out_sharding=<@m, [{"axis_0"}, {"axis_1"}, {}]> : tensor<8x8x8xf32>
  %5 = sdy.collective_permute %4 out_sharding=<@m, [{"axis_1"}, {"axis_0"}, {}]> : tensor<8x8x8xf32>
  %6 = stablehlo.custom_call @f(%5) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}, {}, {}], unreduced={"axis_0", "axis_1"}>]>} : (tensor<8x8x8xf32>) -> tensor<8x8x8xf32>
  %7 = sdy.all_reduce {"axis_0"} %6 out_sharding=<@m, [{}, {}, {}], unreduced={"axis_1"}> : tensor<8x8x8xf32>
  %8 = sdy.reduce_scatter [{"axis_0"}, {"axis_1"}, {}] %6 out_sharding=<@m, [{"axis_0"}, {"axis_1"}, {}]> : tensor<8x8x8xf32>
  %9 = sdy.all_to_all [{"axis_1"}: 1->0] %8 out_sharding=<@m, [{"axis_0", "axis_1"}, {}, {}]> : tensor<8x8x8xf32>
  return %9 : tensor<8x8x8xf32>
}"""
        )
    )
    text = to_rfc(hub)
    assert text.count("mesh.reduce_scatter") == 2  # one for each dimension that is scattered
    again = to_sdy(text)
    assert to_rfc(again) == text
    assert again.replace("\n", "").count("sdy.sharding_per_value") == hub.count("sdy.sharding_per_value")


def test_thousands_of_annotations_convert_quickly(record_property: Callable[[str, object], None]) -> None:
    lines = ["%v0 = stablehlo.negate %0 : tensor<4x8xf32>"]
    for n in range(10_000):
        lines.append(f"%a{n} = mesh.annotate %v{n} {{required = true, sharding = [[0], [1]]}} : tensor<4x8xf32>")
        lines.append(f"%v{n + 1} = stablehlo.negate %a{n} : tensor<4x8xf32>")
    module = load_module(to_generic(function("\n".join(lines)), [RFC]))
    start = time.perf_counter()
    import_module(module)
    middle = time.perf_counter()
    export_module(module)
    end = time.perf_counter()
    record_property(
        "summary", f"mesh RFC, 10,000 annotations: import {middle - start:.2f} s, export {end - middle:.2f} s"
    )
    assert end - start < 5


def test_a_mesh_without_a_name_is_refused() -> None:
    text = """
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}) -> tensor<8xf32> {
      return %a : tensor<8xf32>
    }
    """
    with pytest.raises(ShardingError, match="the RFC cannot express a mesh without a name") as raised:
        sw.convert(text, to="rfc")
    assert raised.value.diagnostic.op == "func.func"


def test_a_device_without_a_mesh_is_refused() -> None:
    text = """
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<[], device_ids=[3]>, []>}) -> tensor<8xf32> {
      return %a : tensor<8xf32>
    }
    """
    with pytest.raises(ShardingError, match="the RFC cannot express a mesh without a name"):
        sw.convert(text, to="rfc")


def test_what_a_result_is_said_to_be_twice_is_annotated_once() -> None:
    """A completed program brings a value to what its function returns, and says of the result the same."""
    split = '{sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>}'
    text = f"""sdy.mesh @mesh = <["a"=2]>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {split}) {{
  %0 = stablehlo.negate %x : tensor<4xf32>
  %1 = sdy.reshard %0 <@mesh, [{{"a"}}]> : tensor<4xf32>
  return %1 : tensor<4xf32>
}}"""
    assert to_rfc(text).count("mesh.annotate") == 1
    assert to_rfc(text.replace('<@mesh, [{"a"}]> :', "<@mesh, [{}]> :")).count("mesh.annotate") == 2


def test_what_scalar_bodies_say_is_converted_too() -> None:
    text = """sdy.mesh @mesh = <["a"=2]>
func.func @main(%a: tensor<4xf32>, %z: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %1 = sdy.sharding_constraint %x <@mesh, []> : tensor<f32>
    %2 = stablehlo.add %1, %y {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>} : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }
  return %0 : tensor<f32>
}"""
    rfc = to_rfc(text)
    assert "sdy." not in rfc
    again = to_sdy(rfc)
    assert again.count("sdy.sharding_constraint") == again.count("sdy.sharding_per_value") == 1
