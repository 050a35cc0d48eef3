"""The mesh RFC's text, sentence by sentence, each with an example worked out by hand from it."""

from __future__ import annotations

import pytest

from shardwright.program import Plan, load
from shardwright.propagation import propagate

_T = "tensor<8x8xf32>"
_DOT = f"contracting_dims = [1] x [0] : ({_T}, {_T}) -> {_T}"


def _program(body: str, arguments: int = 2) -> str:
    lines = body.strip().splitlines()
    given = ", ".join(f"%{name}: {_T}" for name in "abc"[:arguments])
    values = lines.pop().removeprefix("return ").strip()
    kinds = ", ".join([_T] * (values.count(",") + 1))
    head = f"mesh.cluster @g(rank = 2, dim_sizes = [2, 2])\nfunc.func @main({given}) -> ({kinds})"
    return "\n".join([f"{head} attributes {{mesh_cluster = @g}} {{", *lines, f"return {values} : {kinds}", "}"])


def _note(value: str, axes: str, *, required: bool = True, as_result: bool = True) -> str:
    flags = f"required = {str(required).lower()}, as_result = {str(as_result).lower()}"
    return f"mesh.annotate {value} {{sharding = {axes}, {flags}}} : {_T} -> {_T}"


def _layout(text: str, arguments: int = 2, *, run: bool = False) -> list[str]:
    """Arguments, ops and results with their shardings; axes by number, as the RFC has them."""
    program = load(_program(text, arguments))
    graph = propagate(program.graph, strategy="rfc")
    assert not run or Plan(program.source, None, program.graph, graph, program.clock).partition().verify().ok
    ops = [f"{op.name.split('.')[1]} {graph.shardings[op.results[0]]!r}" for op in graph.main.block.ops if op.results]
    stated = [*(repr(graph.shardings[value]) for value in graph.main.block.arguments), *ops]
    return [line.replace("axis_", "") for line in (*stated, *map(repr, graph.main.result_shardings))]


def test_as_result_is_for_the_op_that_defines_the_tensor_and_the_rest_for_specific_users() -> None:
    """The first example of AnnotateOp: `op0` is `tanh`, `op1` is `cosine`, `op2` is `sine`."""
    text = f"""
%0 = stablehlo.tanh %a : {_T}
%1 = {_note("%0", "[[0], [1]]")}
%2 = {_note("%1", "[[0]]", as_result=False)}
%3 = stablehlo.cosine %2 : {_T}
%4 = {_note("%1", "[[1]]", as_result=False)}
%5 = stablehlo.sine %4 : {_T}
return %3, %5"""
    assert _layout(text, 1, run=True) == [
        "[{0}, {1}]",
        "tanh [{0}, {1}]",
        "reshard [{0}, {}]",
        "cosine [{0}, {}]",
        "reshard [{1}, {}]",
        "sine [{1}, {}]",
        "[{0}, {}]",
        "[{1}, {}]",
    ]


def test_an_operand_of_which_nothing_is_said_has_the_sharding_of_its_value() -> None:
    """The second example of AnnotateOp."""
    text = (
        f"%0 = stablehlo.tanh %a : {_T}\n%1 = {_note('%0', '[[0], [1]]')}\n%2 = stablehlo.cosine %1 : {_T}\nreturn %2"
    )
    assert _layout(text, 1) == ["[{0}, {1}]", "tanh [{0}, {1}]", "cosine [{0}, {1}]", "[{0}, {1}]"]


def test_an_annotation_for_users_on_another_is_what_they_read_and_both_hold() -> None:
    one, other = _note("%a", "[[0]]", as_result=False), _note("%1", "[[1]]", as_result=False)
    text = f"%1 = {one}\n%2 = {other}\n%3 = stablehlo.tanh %2 : {_T}\nreturn %3"
    assert _layout(text, 1) == ["[{0}, {}]", "reshard [{0}, {}]", "reshard [{1}, {}]", "tanh [{1}, {}]", "[{1}, {}]"]


def test_what_main_returns_may_be_annotated_otherwise_before() -> None:
    """A required annotation for users of what is required otherwise as a result of the function."""
    program = load(
        'sdy.mesh @m = <["x"=2, "y"=2]>\nfunc.func @main(%a: tensor<8xf32>) '
        '-> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y"}]>}) {\n  %0 = stablehlo.tanh %a : tensor<8xf32>\n'
        '  %1 = sdy.sharding_constraint %0 <@m, [{"x"}]> : tensor<8xf32>\n  return %1 : tensor<8xf32>\n}'
    )
    graph = propagate(program.graph, strategy="rfc")
    assert [repr(graph.shardings[op.results[0]]) for op in graph.main.block.ops[:-1]] == ["[{x}]", "[{x}]", "[{y}]"]
    assert [repr(sharding) for sharding in graph.main.result_shardings] == ["[{y}]"]


def test_a_constraint_that_says_nothing_parts_no_others() -> None:
    program = load("""sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %a <@m, [{"x"}]> : tensor<8xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{?}]> : tensor<8xf32>
  %2 = sdy.sharding_constraint %1 <@m, [{"y"}]> : tensor<8xf32>
  return %2 : tensor<8xf32>
}""")
    graph = propagate(program.graph, strategy="rfc")
    assert [repr(graph.shardings[op.results[0]]) for op in graph.main.block.ops[:-1]] == ["[{x}]", "[{y}]"]


def test_if_a_result_has_an_annotation_its_dimensions_are_mapped_to_loops() -> None:
    """Loops of the product: `[i, j, k]`; `i` and `j` are the result's, and so are the operands' rows and columns."""
    text = f"%0 = stablehlo.dot_general %a, %b, {_DOT}\n%1 = {_note('%0', '[[1], [0]]')}\nreturn %1"
    assert _layout(text) == ["[{1}, {}]", "[{}, {0}]", "dot_general [{1}, {0}]", "[{1}, {0}]"]


def test_the_last_list_of_a_result_is_for_the_reduction_loop() -> None:
    text = f"%0 = stablehlo.dot_general %a, %b, {_DOT}\n%1 = {_note('%0', '[[], [], [1]]')}\nreturn %1"
    expected = ["[{}, {1}]", "[{1}, {}]", "dot_general [{}, {}] partial=sum{1}", "[{}, {}]"]
    assert [line for line in _layout(text) if "reshard" not in line] == expected


def test_operands_tell_of_reduction_loops_and_of_parallel_loops_not_handled_yet() -> None:
    """The result says `i` on 0, the right operand `k` on 1: the left operand is split by both, the result is a sum."""
    text = f"""
%1 = {_note("%b", "[[1], []]", as_result=False, required=False)}
%2 = stablehlo.dot_general %a, %1, {_DOT}
%3 = {_note("%2", "[[0]]")}
return %3"""
    assert _layout(text, run=True) == ["[{0}, {1}]", "[{1}, {}]", "dot_general [{0}, {}]", "[{0}, {}]"]


def test_a_partial_sum_is_of_the_loop_that_an_operand_splits_so() -> None:
    """Two loops are reduced over; the result says that one is split along `x`, the operand which one."""
    program = load("""sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<6x8xf32>, %b: tensor<6x8xf32>) -> tensor<f32> {
  %1 = sdy.sharding_constraint %a <@m, [{}, {"x"}]> : tensor<6x8xf32>
  %2 = stablehlo.dot_general %1, %b, contracting_dims = [0, 1] x [0, 1]
      {sdy.sharding = #sdy.sharding_per_value<[<@m, [], unreduced={"x"}>]>}
      : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}""")
    graph = propagate(program.graph, strategy="rfc")
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{}, {x}]", "[{}, {x}]"]


def test_an_axis_that_the_result_uses_is_not_taken_from_an_operand() -> None:
    """The first product of the walk-through: its operand comes along 0, its result is split by 0: it is gathered."""
    text = f"""
%0 = {_note("%a", "[[], [0]]")}
%1 = stablehlo.dot_general %0, %b, {_DOT}
%2 = {_note("%1", "[[], [0]]")}
return %2"""
    assert _layout(text, run=True) == [
        "[{}, {0}]",
        "[{}, {0}]",
        "reshard [{}, {}]",
        "dot_general [{}, {0}]",
        "[{}, {0}]",
    ]


def test_an_option_that_an_op_has_already_is_returned_at_once() -> None:
    """Whatever is said of operands: here the hint is for `i` on 1, the option `j` on 0."""
    program = load("""sdy.mesh @m = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"y", ?}, {?}]>}, %b: tensor<8x8xf32>)
    -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {shardwright.option = [[], [0]]}
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}""")
    graph = propagate(program.graph, strategy="rfc")
    layouts = {op.name: repr(graph.shardings[op.results[0]]) for op in graph.walk() if op.results}
    assert layouts == {"sdy.reshard": "[{}, {}]", "stablehlo.dot_general": "[{}, {x}]"}


def test_reduction_loops_append_their_axes_to_the_annotations_of_results() -> None:
    first = _note("%a", "[[], [0]]", as_result=False)
    text = f"%1 = {first}\n%2 = stablehlo.dot_general %1, %b, {_DOT}\nreturn %2"
    assert _layout(text) == ["[{}, {0}]", "[{0}, {}]", "dot_general [{}, {}] partial=sum{0}", "[{}, {}]"]


def test_only_sums_are_left_partial() -> None:
    program = load("""sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {"x"}]>}) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1]
      : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}""")
    graph = propagate(program.graph, strategy="rfc")
    assert repr(graph.shardings[graph.main.block.ops[1].results[0]]) == "[{}]"
    assert Plan(program.source, None, program.graph, graph, program.clock).partition().verify().ok


def test_ops_are_visited_backward_first() -> None:
    """Backward, `cosine` gets the sharding of what follows it; forward first would give it that of `%a`."""
    text = f"""
%0 = {_note("%a", "[[0]]")}
%1 = stablehlo.cosine %0 : {_T}
%2 = stablehlo.sine %1 : {_T}
%3 = {_note("%2", "[[1]]")}
return %3"""
    assert _layout(text, 1) == ["[{0}, {}]", "reshard [{1}, {}]", "cosine [{1}, {}]", "sine [{1}, {}]", "[{1}, {}]"]


def test_ops_are_visited_once_each_way() -> None:
    """What `sine` wants is said of its use of `%a` only: `cosine` learns nothing of it; a fixpoint would tell it."""
    text = f"""
%0 = stablehlo.cosine %a : {_T}
%1 = stablehlo.sine %a : {_T}
%2 = {_note("%1", "[[1]]")}
return %0, %2"""
    assert _layout(text, 1) == ["[{1}, {}]", "cosine [{}, {}]", "sine [{1}, {}]", "[{}, {}]", "[{1}, {}]"]


def test_forward_reaches_what_backward_did_not() -> None:
    text = (
        f"%0 = {_note('%a', '[[], [1]]')}\n%1 = stablehlo.add %0, %b : {_T}\n%2 = stablehlo.sine %1 : {_T}\nreturn %2"
    )
    assert _layout(text) == ["[{}, {1}]", "[{}, {1}]", "add [{}, {1}]", "sine [{}, {1}]", "[{}, {1}]"]


@pytest.mark.parametrize("control", ["if", "case"])
def test_what_branches_give_is_split_as_the_result(control: str) -> None:
    """The RFC is silent on regions: here they are the identity of what they give."""
    index = "tensor<i1>" if control == "if" else "tensor<i32>"
    program = load(f"""sdy.mesh @m = <["x"=2]>
func.func @main(%p: {index}, %a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}]>}}) -> tensor<8xf32> {{
  %0 = "stablehlo.{control}"(%p) ({{
    %1 = stablehlo.tanh %a : tensor<8xf32>
    stablehlo.return %1 : tensor<8xf32>
  }}, {{
    stablehlo.return %a : tensor<8xf32>
  }}) : ({index}) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}""")
    graph = propagate(program.graph, strategy="rfc")
    assert {repr(graph.shardings[value]) for op in graph.walk() for value in op.results} == {"[{x}]"}
    assert Plan(program.source, None, program.graph, graph, program.clock).partition().verify().ok


_ACCUMULATING = """sdy.mesh @m = <["x"=2]>
func.func @main(%a: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<8xf32>
  %0:2 = stablehlo.while(%u = %z, %v = %i) : tensor<8xf32>, tensor<i32> cond {
    %c = stablehlo.compare LT, %v, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %r = stablehlo.cosine %a : tensor<8xf32>
    %s = stablehlo.sine %r : tensor<8xf32>
    stablehlo.return %s, %v : tensor<8xf32>, tensor<i32>
  }
  %1 = stablehlo.tanh %0#0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}"""


def test_what_reads_a_loop_hears_of_what_its_body_returns() -> None:
    """The RFC is silent on regions: forward, a loop is visited once more when its body has been."""
    split = '%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}]>}'
    graph = propagate(load(_ACCUMULATING.replace("%a: tensor<8xf32>", split)).graph, strategy="rfc")
    assert [repr(sharding) for sharding in graph.main.result_shardings] == ["[{x}]"]


def test_the_body_of_a_loop_hears_of_what_reads_its_results() -> None:
    """Backward, a loop is visited once more before its body is."""
    split = '%1 = stablehlo.tanh %0#0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}'
    graph = propagate(load(_ACCUMULATING.replace("%1 = stablehlo.tanh %0#0", split)).graph, strategy="rfc")
    cosine = next(op for op in graph.walk() if op.name == "stablehlo.cosine")
    assert repr(graph.shardings[cosine.results[0]]) == "[{x}]"


def test_shardings_lie_on_the_mesh_they_are_said_on() -> None:
    program = load("""sdy.mesh @first = <["x"=2, "y"=2]>
sdy.mesh @second = <["z"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@second, [{"z"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}""")
    graph = propagate(program.graph, strategy="rfc")
    assert [(sharding.mesh.name, repr(sharding)) for sharding in graph.shardings if sharding is not None] == [
        ("second", "[{z}]")
    ] * 2


def test_parts_of_an_axis_that_meet_in_a_sum_are_one() -> None:
    graph = propagate(
        load("""sdy.mesh @m = <["x"=6]>
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<f32> {
  %1 = sdy.sharding_constraint %a <@m, [{"x":(1)2}, {"x":(2)3}]> : tensor<2x3xf32>
  %2 = stablehlo.dot_general %1, %b, contracting_dims = [0, 1] x [0, 1]
      : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}""").graph,
        strategy="rfc",
    )
    assert repr(graph.shardings[graph.main.block.ops[-2].results[0]]) == "[] partial=sum{x}"
