"""Values that one device alone is said to hold, at the boundary and inside: every device computes them, and right."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.partition import localize, materialize
from shardwright.propagation import propagate
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import assert_equal, make_case

MESHES = 'sdy.mesh @mesh = <["a"=4]>\nsdy.mesh @one = <[], device_ids=[3]>\n'
ONE, SPLIT = "#sdy.sharding<@one, []>", '#sdy.sharding<@mesh, [{"a"}, {}]>'


def program(argument: str, inside: str, result: str) -> str:
    annotation = (
        f"{{sdy.sharding = #sdy.sharding_per_value<[{inside.removeprefix('#sdy.sharding')}]>}}" if inside else ""
    )
    return (
        f"{MESHES}func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = {argument}}}, %b: tensor<8x8xf32>"
        f" {{sdy.sharding = {SPLIT}}}) -> (tensor<8x8xf32> {{sdy.sharding = {result}}}) {{\n"
        f"  %0 = stablehlo.add %a, %b {annotation} : tensor<8x8xf32>\n"
        "  %1 = stablehlo.dot %0, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
        "  return %1 : tensor<8x8xf32>\n}\n"
    )


def test_what_one_device_is_to_hold_every_device_holds() -> None:
    texts = [
        program(*shardings) for shardings in ((ONE, "", SPLIT), (SPLIT, "", ONE), (SPLIT, ONE, SPLIT), (ONE, ONE, ONE))
    ]
    cases = [make_case(text, seed) for seed, text in enumerate(texts)]
    done = try_jobs([job for case in cases for job in (case.unsharded, case.local)])
    for number, case in enumerate(cases):
        assert_equal(case.text, case, done[2 * number], done[2 * number + 1])


ROLLED = """
    %0 = stablehlo.slice %a [5:8, 0:8] : (tensor<8x8xf32>) -> tensor<3x8xf32>
    %1 = stablehlo.slice %a [0:5, 0:8] : (tensor<8x8xf32>) -> tensor<5x8xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<3x8xf32>, tensor<5x8xf32>) -> tensor<8x8xf32>"""
SHIFTED = """
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.pad %a, %c, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x8xf32>, tensor<f32>)
      -> tensor<9x8xf32>
    %2 = stablehlo.slice %0 [0:8, 0:8] : (tensor<9x8xf32>) -> tensor<8x8xf32>"""


@pytest.mark.parametrize("moved", [ROLLED, SHIFTED], ids=["rolled", "shifted"])
@pytest.mark.parametrize("result", [ONE, SPLIT], ids=["one", "split"])
def test_rows_of_what_one_device_holds_are_moved(moved: str, result: str) -> None:
    """They ended in an `IndexError`."""
    text = (
        f"{MESHES}func.func @main(%a: tensor<8x8xf32> {{sdy.sharding = {ONE}}}) -> (tensor<8x8xf32> "
        f"{{sdy.sharding = {result}}}) {{{moved}\n  return %2 : tensor<8x8xf32>\n}}\n"
    )
    case = make_case(text, 1)
    assert_equal(text, case, *try_jobs([case.unsharded, case.local]))


@pytest.mark.parametrize("results", ["()", "tensor<4xf32>"])
def test_effects_on_one_device_are_refused(results: str) -> None:
    attributes = "{has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}"
    text = (
        f"{MESHES}func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n"
        f"  {'' if results == '()' else '%0 = '}stablehlo.custom_call @log(%a) {attributes} : (tensor<4xf32>) -> {results}\n"
        "  return %a : tensor<4xf32>\n}\n"
    )
    with pytest.raises(ShardingError, match="is to run on one device alone, and has effects"):
        materialize(propagate(read(load_module(text))))


def test_what_an_op_without_results_states_stays_with_the_global_program() -> None:
    text = (
        f'{MESHES}func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}]>}}) {{\n'
        "  stablehlo.custom_call @log(%a) {has_side_effect = true, sdy.sharding = "
        "#sdy.sharding_per_value<[<@mesh, []>]>} : (tensor<4xf32>) -> ()\n  return\n}\n"
    )
    local = write(localize(materialize(propagate(read(load_module(text)))).graph), shardings=False)
    assert local.operation.verify()
    assert "sdy.sharding" not in str(local)


@pytest.mark.parametrize("operands", ["%c, %b", "%t", "%t, %c", ""])
def test_effects_on_what_any_device_can_make(operands: str) -> None:
    types = {"%c": "tensor<4xf32>", "%b": "tensor<f32>", "%t": "!stablehlo.token"}
    given = ", ".join(types[operand] for operand in operands.split(", ") if operand)
    text = (
        f'{MESHES}func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}]>}}) {{\n'
        "  %c = stablehlo.constant dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>\n"
        "  %s = stablehlo.constant dense<2.0> : tensor<f32>\n"
        "  %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<f32>\n"
        "  %t = stablehlo.create_token : !stablehlo.token\n"
        f"  stablehlo.custom_call @log({operands}) {{has_side_effect = true}} : ({given}) -> ()\n  return\n}}\n"
    )
    local = str(write(localize(materialize(propagate(read(load_module(text)))).graph), shardings=False))
    assert f"({given}) -> ()" in local
