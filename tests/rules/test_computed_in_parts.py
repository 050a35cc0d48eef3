"""What a rule that was given propagates along, and what of it may be computed in parts: two facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.notation.modules import read
from shardwright.partition import localize, materialize
from shardwright.partition.splits import splits_of
from shardwright.propagation import propagate
from shardwright.rules.registry import forget_rule, rule

_MATRIX = TensorType((4, 8), "f32")
_VECTOR = TensorType((4,), "f32")
_BATCH = TensorType((4, 8, 8), "f32")
_ATTRIBUTE = "sdy.sharding_rule"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in ("@mine", "my.op", "stablehlo.fft", "stablehlo.get_dimension_size"):
        forget_rule(name)


def _call(operands: tuple[TensorType, ...] = (_MATRIX,), results: tuple[TensorType, ...] = (_MATRIX,)) -> Signature:
    return Signature("stablehlo.custom_call", (("call_target_name", '"mine"'),), operands, results)


def _with(signature: Signature, attribute: str, text: str) -> Signature:
    return replace(signature, attributes=(*signature.attributes, (attribute, text)))


def _allowed(signature: Signature) -> frozenset[int]:
    splits = splits_of(signature)
    assert splits is not None
    return splits.allowed


def test_what_only_results_have_is_whole_unless_the_author_says_it_is_local() -> None:
    rule("@mine", "i _ -> i j")
    assert _allowed(_call()) == {0}
    rule("@mine", "i _ -> i j", local="j")
    assert _allowed(_call()) == {0, 1}


def test_what_one_of_several_results_lacks_is_whole() -> None:
    rule("@mine", "i j -> i j, i")
    assert _allowed(_call(results=(_MATRIX, _VECTOR))) == {0}
    rule("@mine", "i j -> i j,")
    assert _allowed(_call(results=(_MATRIX, TensorType((), "f32")))) == frozenset()


def test_a_token_has_no_dimensions_to_lack() -> None:
    token = TensorType(None, "!stablehlo.token")
    rule("@mine", "i j -> i j,")
    assert _allowed(_call(results=(_MATRIX, token))) == {0, 1}


def test_what_is_summed_is_computed_in_parts() -> None:
    rule("@mine", "i j -> i")
    assert _allowed(_call(results=(_VECTOR,))) == {0, 1}
    rule("@mine", "i j -> i", reduction=False)
    assert _allowed(_call(results=(_VECTOR,))) == {0}


def test_plain_factors_that_only_operands_have_are_whole() -> None:
    text = "#sdy.op_sharding_rule<([i, j])->([i]) {i=4, j=8}, custom>"
    assert _allowed(_with(_call(results=(_VECTOR,)), _ATTRIBUTE, text)) == {0}
    summed = "#sdy.op_sharding_rule<([i, j])->([i]) {i=4, j=8} reduction={j}, custom>"
    assert _allowed(_with(_call(results=(_VECTOR,)), _ATTRIBUTE, summed)) == {0, 1}


def test_of_a_batched_call_its_batch_dimensions_are_computed_in_parts() -> None:
    text = "#sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=8, k=8}, custom>"
    call = _with(_call((_BATCH,), (_BATCH,)), _ATTRIBUTE, text)
    assert _allowed(call) == {0, 1, 2}
    assert _allowed(_with(call, "mhlo.frontend_attributes", '{num_batch_dims = "1"}')) == {0}
    assert _allowed(_with(call, "mhlo.frontend_attributes", '{num_batch_dims = "0"}')) == frozenset()


@pytest.mark.parametrize(
    ("attribute", "text", "whole"),
    [
        ("backend_config", '"{\\22rows\\22: 8}"', {1}),
        ("backend_config", '"a\\08\\00\\00\\00"', {0, 1}),
        ("backend_config", '"elements=32"', {0, 1}),
        ("mhlo.backend_config", "{rows = 4 : i32}", {0}),
        ("mhlo.backend_config", "{shape = array<i64: 4, 8>}", {0, 1}),
        ("mhlo.backend_config", "{mode = 8 : ui8}", set()),
        ("mhlo.backend_config", '{name = "v8", scale = 4.500000e+00 : f32}', set()),
        ("called_computations", "[@body]", {0, 1}),
    ],
)
def test_a_size_that_would_have_to_change_elsewhere_is_whole(attribute: str, text: str, whole: set[int]) -> None:
    rule("@mine", "i j -> i j")
    assert _allowed(_with(_call(), attribute, text)) == {0, 1} - whole
    rule("@mine", "i j -> i j", local="i j")
    assert _allowed(_with(_call(), attribute, text)) == {0, 1}


def test_what_shares_a_buffer_is_cut_alike() -> None:
    square = TensorType((8, 8), "f32")
    alias = (
        "[#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]"
    )
    rule("@mine", "i j -> j i", local="i j")
    assert _allowed(_call((square,), (square,))) == {0, 1}
    assert _allowed(_with(_call((square,), (square,)), "output_operand_aliases", alias)) == frozenset()


@pytest.mark.parametrize("by", ["attribute", "custom attribute", "user"])
def test_a_rule_for_an_op_that_is_known_does_not_make_it_local(by: str) -> None:
    type = TensorType((4, 8), "complex<f32>")
    attributes = (("fft_length", "array<i64: 8>"), ("fft_type", "#stablehlo<fft_type FFT>"))
    fft = Signature("stablehlo.fft", attributes, (type,), (type,))
    if by == "user":
        rule("stablehlo.fft", "i j -> i j")
    else:
        custom = ", custom" if by == "custom attribute" else ""
        text = f"#sdy.op_sharding_rule<([i, j])->([i, j]) {{i=4, j=8}}{custom}>"
        fft = _with(fft, _ATTRIBUTE, text)
    assert _allowed(fft) == {0}


def test_a_rule_may_make_less_of_a_known_op_local() -> None:
    tanh = Signature("stablehlo.tanh", (), (_MATRIX,), (_MATRIX,))
    text = "#sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=8} need_replication={i}, custom>"
    assert _allowed(_with(tanh, _ATTRIBUTE, text)) == {1}
    apart = "#sdy.op_sharding_rule<([i, j])->([k, j]) {i=4, j=8, k=4}, custom>"
    assert _allowed(_with(tanh, _ATTRIBUTE, apart)) == {1}


def test_a_summed_factor_is_none_that_passes() -> None:
    dot = Signature(
        "stablehlo.dot_general",
        (
            (
                "dot_dimension_numbers",
                "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>",
            ),
        ),
        (TensorType((4, 8), "f32"), TensorType((8, 2), "f32")),
        (TensorType((4, 2), "f32"),),
    )
    mapped = "([i, k], [k, j])->([i, j]) {i=4, j=2, k=8}"
    summed = _with(dot, _ATTRIBUTE, f"#sdy.op_sharding_rule<{mapped} reduction={{k}}>")
    assert _allowed(summed) == {0, 1, 2}
    assert _allowed(_with(dot, _ATTRIBUTE, f"#sdy.op_sharding_rule<{mapped}, custom>")) == {0, 1}


def test_an_op_of_stablehlo_without_a_rule_of_ours_is_whole_whatever_is_said() -> None:
    rule("stablehlo.get_dimension_size", "i j -> ", reduction=False)
    size = Signature("stablehlo.get_dimension_size", (("dimension", "0 : i64"),), (_MATRIX,), (TensorType((), "i32"),))
    assert splits_of(size) is None


@pytest.mark.parametrize("what", ["need_replication", "permutation"])
def test_what_is_local_needs_no_data_of_others(what: str) -> None:
    with pytest.raises(ShardingError, match="'j' is local and not"):
        rule("@mine", "i j -> i j", local="j", **{what: "j"})  # type: ignore[call-overload]
    with pytest.raises(ShardingError, match="local names 'z', which is no factor"):
        rule("@mine", "i j -> i j", local="z")


_PROGRAM = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}, {}]>})
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, tensor<8xi32>) {
  %0:2 = stablehlo.custom_call @mine(%a) {mhlo.frontend_attributes = {num_batch_dims = "1"},
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l], [i]) {i=8, j=16, k=16, l=16}, custom>}
    : (tensor<8x16x16xf32>) -> (tensor<8x16xf32>, tensor<8xi32>)
  return %0#0, %0#1 : tensor<8x16xf32>, tensor<8xi32>
}"""


def test_the_local_call_has_its_batch_and_no_rule_of_the_whole() -> None:
    local: Graph = localize(materialize(propagate(read(load_module(_PROGRAM)))).graph)
    (call,) = (op.signature for op in local.walk() if op.name == "stablehlo.custom_call")
    assert [str(type) for type in call.operands] == ["tensor<4x16x16xf32>"]
    assert [str(type) for type in call.results] == ["tensor<4x16xf32>", "tensor<4xi32>"]
    assert call.text(_ATTRIBUTE) is None
