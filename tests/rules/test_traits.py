"""The tables of traits against the behaviour of the C++ passes that ask for them."""

from __future__ import annotations

import re

import pytest

import tests.rules.corpus_more  # noqa: F401  (registers makers)
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.propagation.engine.priorities import flow_of
from shardwright.rules.facts import Flow
from shardwright.rules.traits import facts_of, is_constant_preserving, is_elementwise, is_scalar_expansion
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.rules.corpus import MAKERS, Instance, instances
from tests.rules.programs import ops_of

SPLIT = "builtin.module(sdy-constant-or-scalar-splitter)"


def signature_of(text: str) -> Signature:
    return ops_of(f"func.func @main(%a: tensor<4x4xf32>, %n: tensor<i32>) {{\n  {text}\n  return\n}}")[0].signature


TYPE = "tensor<4x4xf32>"
MOVE = f"%0 = stablehlo.custom_call @MoveToHost(%a) : ({TYPE}) -> {TYPE}"
ERF = f"%0 = stablehlo.custom_call @mhlo.erf(%a) : ({TYPE}) -> {TYPE}"
ADD = f"%0 = stablehlo.add %a, %a : {TYPE}"
BARRIER = f"%0 = stablehlo.optimization_barrier %a : {TYPE}"
BITCAST = f"%0 = stablehlo.bitcast_convert %a : ({TYPE}) -> tensor<4x4x2xi16>"
UPDATE = f"%0 = stablehlo.dynamic_update_slice %a, %a, %n, %n : ({TYPE}, {TYPE}, tensor<i32>, tensor<i32>) -> {TYPE}"
TRANSPOSE = f"%0 = stablehlo.transpose %a, dims = [1, 0] : ({TYPE}) -> {TYPE}"


@pytest.mark.parametrize(
    ("text", "elementwise", "pass_through", "forward"),
    [
        (ADD, True, True, False),
        (BITCAST, False, False, False),
        (BARRIER, False, False, False),
        (MOVE, False, True, False),
        (ERF, False, False, False),
        (TRANSPOSE, False, True, False),
        (UPDATE, False, False, True),
    ],
)
def test_what_passes_through(text: str, elementwise: bool, pass_through: bool, forward: bool) -> None:
    signature = signature_of(text)
    assert is_elementwise(signature) == elementwise
    assert (flow_of(signature) is Flow.PASS_THROUGH) == pass_through
    assert (flow_of(signature) is Flow.DYNAMIC_SLICE) == forward


def test_a_broadcast_of_a_scalar_is_a_scalar_expansion() -> None:
    assert is_scalar_expansion(
        signature_of("%0 = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<i32>) -> tensor<4xi32>")
    )
    assert not is_scalar_expansion(
        signature_of(f"%0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : ({TYPE}) -> tensor<4x4x2xf32>")
    )


def of_constants(instance: Instance) -> str:
    """The op applied to constants, its result used twice: a constant expression is then cloned."""
    lines = [_constant(f"%c{number}", type) for number, type in enumerate(instance.operands)]
    lines.append(instance.text([f"%c{number}" for number in range(len(lines))], "r"))
    use = (
        f'"stablehlo.custom_call"(%r#0) {{call_target_name = "use", has_side_effect = true}} : ({instance.results[0]})'
    )
    return "func.func @main() {\n" + "\n".join([*lines, *[f"{use} -> ()"] * 2]) + "\nreturn\n}"


def _constant(name: str, type: str) -> str:
    dtype = TensorType.parse(type).dtype
    value = "true" if dtype == "i1" else "1" if dtype.startswith(("i", "ui")) else "1.0"
    return f'{name} = "sdy.constant"() {{value = dense<{value}> : {type}}} : () -> {type}'


def a_tensor(name: str) -> Instance:
    """An instance whose result is not a scalar (scalars are never cloned)."""
    return next(one for one in instances(name, 100, seed=1) if re.match(r"tensor<\d", one.results[0]))


@pytest.mark.oracle
def test_constant_expressions_are_those_of_shardy() -> None:
    chosen = [a_tensor(name) for name in MAKERS if "custom_call" not in name]
    chosen = [one for one in chosen if "complex" not in one.operands[0]]
    texts = [of_constants(one) for one in chosen]
    for one, text, output in zip(chosen, texts, run_batch([(text, SPLIT) for text in texts]), strict=True):
        assert not isinstance(output, ShardyFailure), (one, output)
        cloned = len(re.findall(rf'"?{re.escape(one.name)}"?[ (]', output)) == 2
        (signature,) = [op.signature for op in ops_of(text) if op.name == one.name]
        assert is_constant_preserving(signature) == cloned, one
        assert not facts_of(one.name).constant, one
