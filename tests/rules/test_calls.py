"""Custom calls, whose operands and results nobody checks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.custom_call import known_targets
from shardwright.rules.fit import check_fit
from shardwright.rules.registry import local_factors, rule_for
from tests.rules.corpus import Instance, program
from tests.rules.parts import Split, inputs_of
from tests.rules.programs import ops_of
from tests.rules.xla import run_ops

_SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
_TYPES = st.one_of(
    _SHAPES.map(lambda shape: TensorType(shape, "f32")),
    st.sampled_from([TensorType(None, "!stablehlo.token"), TensorType(None, "tensor<?x4xf32>")]),
)
_SIDES = st.lists(_TYPES, max_size=3).map(tuple)


def _call(target: str, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> Signature:
    return Signature("stablehlo.custom_call", (("call_target_name", f'"{target}"'),), operands, results)


@given(st.sampled_from(known_targets()), _SIDES, _SIDES)
def test_a_call_of_any_tensors_has_a_rule_that_fits_it_or_none(
    target: str, operands: tuple[TensorType, ...], results: tuple[TensorType, ...]
) -> None:
    signature = _call(target, operands, results)
    rule = rule_for(signature)
    if rule is None:
        assert local_factors(signature) == frozenset()
    else:
        check_fit(rule, signature)
        assert local_factors(signature) <= rule.pass_through


def test_a_call_with_other_results_than_its_target_has_no_rule() -> None:
    matrices, vectors = TensorType((2, 4, 4), "f32"), TensorType((2, 4), "f32")
    assert rule_for(_call("Eigh", (matrices,), (matrices, vectors))) is not None
    for operands, results in (
        ((matrices,), (matrices,)),
        ((matrices,), (vectors, vectors)),
        ((), (matrices, vectors)),
        ((matrices,), ()),
        ((vectors, vectors), (matrices, vectors)),
    ):
        assert rule_for(_call("Eigh", operands, results)) is None


def test_all_of_the_largest_elements_come_in_order() -> None:
    """The C++ rule lets the last dimension pass where all elements are kept; parts of it are sorted by themselves."""
    values, positions = TensorType((4, 8), "f32"), TensorType((4, 8), "i32")
    signature = _call("mhlo.topk", (values,), (values, positions))
    rule = rule_for(signature)
    assert rule is not None
    assert rule.pass_through == {0, 1}
    assert local_factors(signature) == {0}


def test_a_selection_along_a_dimension_that_is_not_told_is_not_split() -> None:
    values, positions, scalar = TensorType((4, 8), "f32"), TensorType((4, 8), "i32"), TensorType((), "f32")
    kept = values.with_shape((4, 2)), positions.with_shape((4, 2))
    operands = (values, positions, scalar, scalar)
    assert local_factors(_call("ApproxTopK", operands, (values, positions))) == frozenset()
    assert local_factors(_call("ApproxTopK", operands, kept)) == {0}


def test_rotations_are_propagated_through_and_not_split() -> None:
    matrix = TensorType((4, 8), "f32")
    signature = _call("_SPMDInternalOp_RotateRight", (matrix,), (matrix,))
    rule = rule_for(signature)
    assert rule is not None
    assert rule.operands == rule.results == (((0,), (1,)),)
    assert local_factors(signature) == frozenset()


_MATRIX = "tensor<4x6xf32>"


@pytest.mark.parametrize(
    ("call", "local"),
    [
        (("mhlo.erf", (_MATRIX,), ""), {0, 1}),
        (("mhlo.topk", ("tensor<4x2xf32>", "tensor<4x2xi32>"), "k = 2 : i64, largest = true"), {0}),
        (("mhlo.topk", (_MATRIX, "tensor<4x6xi32>"), "k = 6 : i64, largest = true"), {0}),
    ],
)
def test_calls_that_xla_knows_are_computed_from_parts(call: tuple[str, tuple[str, ...], str], local: set[int]) -> None:
    target, results, given = call
    attributes = f'call_target_name = "{target}", mhlo.attributes = {{{given}}}, mhlo.version = 1 : i64'
    instance = Instance("stablehlo.custom_call", (_MATRIX,), results, attributes)
    signature = ops_of(program([instance]))[0].signature
    rule = rule_for(signature)
    assert rule is not None
    assert local_factors(signature) == local
    inputs = inputs_of(instance, 7)
    splits = [Split(instance, rule, factor, 2) for factor in sorted(local)]
    jobs = [(split.local(), split.blocks(inputs, rule.operands, part)) for split in splits for part in range(2)]
    whole, *outputs = run_ops([(instance, inputs), *jobs])
    expected = [split.blocks(whole, rule.results, part) for split in splits for part in range(2)]
    for ours, theirs in zip(outputs, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
