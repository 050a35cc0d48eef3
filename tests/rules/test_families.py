"""What the rule of each family looks like. `test_shardy.py` compares many more with the C++."""

from __future__ import annotations

import pytest

from shardwright.rules.registry import beyond_shardy, registered_ops
from tests.rules.programs import ops_of, rule_text, rule_texts

CASES = [
    ("stablehlo.add", "%a: tensor<2x1x4xf32>", "%0 = stablehlo.add %a, %a : tensor<2x1x4xf32>",
     "([i, j, k], [i, j, k])->([i, j, k]) {i=2, j=1, k=4}"),
    ("chlo.square", "%a: tensor<2x4xf32>", "%0 = chlo.square %a : tensor<2x4xf32> -> tensor<2x4xf32>",
     "([i, j])->([i, j]) {i=2, j=4}"),
    ("stablehlo.select", "%p: tensor<i1>, %a: tensor<4xf32>",
     "%0 = stablehlo.select %p, %a, %a : tensor<i1>, tensor<4xf32>", "([], [i], [i])->([i]) {i=4}"),
    ("stablehlo.dot_general", "%a: tensor<4x8x16xf32>, %b: tensor<4x16x32xf32>",
     "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]"
     " : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>",
     "([i, j, l], [i, l, k])->([i, j, k]) {i=4, j=8, k=32, l=16} reduction={l}"),
    ("stablehlo.transpose", "%a: tensor<2x3xf32>",
     "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
     "([j, i])->([i, j]) {i=3, j=2}"),
    ("stablehlo.broadcast_in_dim", "%a: tensor<1x4xf32>",
     "%0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<8x4xf32>",
     "([i, k])->([j, k]) {i=1, j=8, k=4}"),
    ("stablehlo.reshape", "%a: tensor<6x4xf32>", "%0 = stablehlo.reshape %a : (tensor<6x4xf32>) -> tensor<4x6xf32>",
     "([ij, mn])->([ik, ln]) {i=2, j=3, k=2, l=3, m=2, n=2}"),
    ("stablehlo.slice", "%a: tensor<4x8xf32>",
     "%0 = stablehlo.slice %a [0:4, 2:8] : (tensor<4x8xf32>) -> tensor<4x6xf32>",
     "([i, j])->([i, j]) {i=4, j=8} permutation={j}"),
    ("stablehlo.reverse", "%a: tensor<4x8xf32>", "%0 = stablehlo.reverse %a, dims = [1] : tensor<4x8xf32>",
     "([i, j])->([i, j]) {i=4, j=8} permutation={j}"),
    ("stablehlo.dynamic_slice", "%a: tensor<4x8xf32>, %n: tensor<i32>",
     "%0 = stablehlo.dynamic_slice %a, %n, %n, sizes = [4, 2]"
     " : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>",
     "([i, j], [], [])->([i, j]) {i=4, j=8} need_replication={j} blocked_propagation={j}"),
    ("stablehlo.gather", "%a: tensor<10x8xf32>, %n: tensor<5x1xi32>",
     '%0 = "stablehlo.gather"(%a, %n) {dimension_numbers = #stablehlo.gather<offset_dims = [1],'
     " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 8>}"
     " : (tensor<10x8xf32>, tensor<5x1xi32>) -> tensor<5x8xf32>",
     "([k, j], [i, l])->([i, j]) {i=5, j=8, k=10, l=1} reduction={k} need_replication={l}"),
    ("stablehlo.cholesky", "%a: tensor<4x8x8xf32>",
     "%0 = stablehlo.cholesky %a, lower = true : (tensor<4x8x8xf32>) -> tensor<4x8x8xf32>",
     "([i, j, k])->([i, j, k]) {i=4, j=8, k=8} need_replication={j, k}"),
    ("stablehlo.custom_call", "%a: tensor<8x4x4xf32>",
     "%0:2 = stablehlo.custom_call @Eigh(%a) : (tensor<8x4x4xf32>) -> (tensor<8x4x4xf32>, tensor<8x4xf32>)",
     "([i, j, k])->([i, j, k], [i, k]) {i=8, j=4, k=4}"),
    ("stablehlo.sort", "%a: tensor<4x8xf32>",
     '%0 = "stablehlo.sort"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): '
     '%1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1> '
     "stablehlo.return %1 : tensor<i1> }) {dimension = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>",
     "([i, j])->([i, j]) {i=4, j=8} need_replication={j}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "op", "rule"), CASES, ids=[case[0] for case in CASES])
def test_rule_of(name: str, arguments: str, op: str, rule: str) -> None:
    assert rule_text(f"func.func @main({arguments}) {{\n  {op}\n  return\n}}", name) == rule


def test_a_program_may_give_the_rule_itself() -> None:
    given = "#sdy.op_sharding_rule<([i])->([i]) {i=8}, custom>"
    text = f"""
        func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{
          %0 = stablehlo.custom_call @mine(%a) {{sdy.sharding_rule = {given}}} : (tensor<8xf32>) -> tensor<8xf32>
          return %0 : tensor<8xf32>
        }}"""
    assert rule_texts(ops_of(text))[0] == given


def test_unknown_custom_calls_and_constants_have_no_rule() -> None:
    text = """
        func.func @main(%a: tensor<8xf32>) {
          %0 = stablehlo.custom_call @unheard_of(%a) : (tensor<8xf32>) -> tensor<8xf32>
          %1 = stablehlo.constant dense<0.0> : tensor<8xf32>
          %2 = stablehlo.iota dim = 0 : tensor<8xi32>
          %3 = stablehlo.optimization_barrier %a : tensor<8xf32>
          return
        }"""
    assert rule_texts(ops_of(text)) == [None] * 5


def test_ops_beyond_shardy_are_registered() -> None:
    assert beyond_shardy() <= set(registered_ops())


A = "%x: tensor<4x8xf32>, %y: tensor<4x8xf32>"
LEFT = "%l = stablehlo.slice %x [0:4, 0:3] : (tensor<4x8xf32>) -> tensor<4x3xf32>"
RIGHT = "%r = stablehlo.slice %x [0:4, 3:8] : (tensor<4x8xf32>) -> tensor<4x5xf32>"


@pytest.mark.parametrize(
    ("operands", "kind"),
    [(["r", "l"], "permutation"), (["l", "x"], "permutation"), (["l", "y"], "need_replication"),
     (["x", "x"], "need_replication"), (["l"], "permutation"), (["l", "x", "y"], "need_replication")],
)  # fmt: skip
def test_a_concatenate_of_slices_is_a_permutation(operands: list[str], kind: str) -> None:
    sizes = {"l": 3, "r": 5, "x": 8, "y": 8}
    types = ", ".join(f"tensor<4x{sizes[name]}xf32>" for name in operands)
    result = f"tensor<4x{sum(sizes[name] for name in operands)}xf32>"
    values = ", ".join(f"%{name}" for name in operands)
    joined = f"%z = stablehlo.concatenate {values}, dim = 1 : ({types}) -> {result}"
    rule = rule_text(f"func.func @main({A}) {{\n{LEFT}\n{RIGHT}\n{joined}\nreturn\n}}", "stablehlo.concatenate")
    assert rule is not None
    assert rule.endswith(f"{kind}={{j}}")


@pytest.mark.parametrize(("second", "needs"), [("%c", ""), ("%n", " need_replication={k}")])
def test_an_update_at_constant_indices_may_be_split(second: str, needs: str) -> None:
    text = f"""
        func.func @main(%a: tensor<4x8xf32>, %b: tensor<4x2xf32>, %n: tensor<i32>) {{
          %c = stablehlo.constant dense<0> : tensor<i32>
          %0 = stablehlo.dynamic_update_slice %a, %b, %c, {second}
            : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
          return
        }}"""
    rule = rule_text(text, "stablehlo.dynamic_update_slice")
    assert rule == f"([i, j], [i, k], [], [])->([i, j]) {{i=4, j=8, k=2}}{needs}"
