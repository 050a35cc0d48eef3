from __future__ import annotations

import pytest

import shardwright.rules.families  # noqa: F401  (registers the rules)
from shardwright.ir.context import load_module
from shardwright.notation.modules import read
from shardwright.rules.registry import rule_for
from shardwright.rules.text import format_rule


def _rule(maps: list[str], iterators: str, operands: list[str], results: list[str], more: str = "") -> str | None:
    """The rule of an op as MLIR parses and prints it; `more` attributes follow."""
    arguments = [f"%a{number}: tensor<{type}>" for number, type in enumerate(operands)]
    types = [", ".join(f"tensor<{type}>" for type in side) for side in (operands, results)]
    listed = ", ".join(f"affine_map<{map}>" for map in maps)
    values = ", ".join(f"%a{number}" for number in range(len(operands)))
    op = f'%r:{len(results)} = "my.op"({values}) {{indexing_maps = [{listed}], iterator_types = {iterators}{more}}}'
    returned = ", ".join(f"%r#{number}" for number in range(len(results)))
    text = f"func.func @main({', '.join(arguments)}) -> ({types[1]}) {{\n{op} : ({types[0]}) -> ({types[1]})\n"
    (op_read, _) = read(load_module(f"{text}return {returned} : {types[1]}\n}}")).main.block.ops
    own_rule = rule_for(op_read.signature)
    return None if own_rule is None else format_rule(own_rule).removeprefix("#sdy.op_sharding_rule<").removesuffix(">")


_MATMUL = ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"]


@pytest.mark.parametrize(
    "iterators",
    [
        '["parallel", "parallel", "reduction"]',
        '["parallel", "parallel", "reduction_sum"]',
        '["parallel", "parallel", "sum"]',
    ],
)
def test_a_matrix_product_has_three_loops(iterators: str) -> None:
    printed = _rule(_MATMUL, iterators, ["4x8xf32", "8x16xf32"], ["4x16xf32"])
    kind = "need_replication" if '"sum"' in iterators else "reduction"
    assert printed == f"([i, k], [k, j])->([i, j]) {{i=4, j=16, k=8}} {kind}={{k}}"


@pytest.mark.parametrize("kind", ["window", "invalid", "reduction_max"])
def test_loops_of_other_kinds_are_whole(kind: str) -> None:
    maps = ["(i, j) -> (i, j)", "(i, j) -> (i)"]
    printed = _rule(maps, f'["parallel", "{kind}"]', ["4x8xf32"], ["4xf32"])
    assert printed == "([i, j])->([i]) {i=4, j=8} need_replication={j}"


def test_a_transposed_and_broadcast_operand() -> None:
    maps = ["(i, j, k) -> (j, i)", "(i, j, k) -> ()", "(i, j, k) -> (i, k, j)"]
    printed = _rule(maps, '["parallel", "parallel", "parallel"]', ["8x4xf32", "f32"], ["4x5x8xf32"])
    assert printed == "([j, i], [])->([i, k, j]) {i=4, j=8, k=5}"


def test_a_window_needs_neighbours() -> None:
    maps = ["(i, w) -> (i + w)", "(i, w) -> (w)", "(i, w) -> (i)"]
    printed = _rule(maps, '["parallel", "reduction"]', ["10xf32", "3xf32"], ["8xf32"])
    assert printed == "([i], [j])->([i]) {i=8, j=3} need_replication={j} permutation={i}"


def test_a_strided_dimension_is_local_where_it_is_covered() -> None:
    maps = ["(i, j) -> (i * 2, j)", "(i, j) -> (j, i)"]
    parallel = '["parallel", "parallel"]'
    assert (
        _rule(maps, parallel, ["16x4xf32"], ["4x8xf32"]) == "([ik, j])->([j, i]) {i=8, j=4, k=2} need_replication={k}"
    )
    assert _rule(maps, parallel, ["17x4xf32"], ["4x8xf32"]) == "([i, j])->([j, i]) {i=8, j=4} permutation={i}"


def test_a_loop_at_an_offset_needs_neighbours() -> None:
    maps = ["(i) -> (i + 1)", "(i) -> (i)"]
    assert _rule(maps, '["parallel"]', ["9xf32"], ["8xf32"]) == "([i])->([i]) {i=8} permutation={i}"


def test_indices_that_are_no_sums_leave_all_loops_whole() -> None:
    maps = ["(i, j) -> (i floordiv 2)", "(i, j) -> (j, i)"]
    printed = _rule(maps, '["parallel", "parallel"]', ["4xf32"], ["4x8xf32"])
    assert printed == "([k])->([j, i]) {i=8, j=4, k=1} need_replication={i, j}"


@pytest.mark.parametrize(
    ("sum", "size", "rule"),
    [
        ("i, i", "4x4xf32", "([i, j])->([i]) {i=4, j=1} need_replication={i}"),
        ("i * 2, i", "8x4xf32", "([ij, k])->([i]) {i=4, j=2, k=1} need_replication={i, j}"),
    ],
)
def test_a_loop_over_a_diagonal_is_whole(sum: str, size: str, rule: str) -> None:
    assert _rule([f"(i) -> ({sum})", "(i) -> (i)"], '["parallel"]', [size], ["4xf32"]) == rule


@pytest.mark.parametrize("iterator", ["#linalg.iterator_type<parallel>", "#linalg<iterator_type parallel>"])
def test_iterators_are_attributes_of_a_dialect_too(iterator: str) -> None:
    assert _rule(["(i) -> (i)", "(i) -> (i)"], f"[{iterator}]", ["4xf32"], ["4xf32"]) == "([i])->([i]) {i=4}"


def test_scalars_have_no_loops() -> None:
    assert _rule(["() -> ()", "() -> ()"], "[]", ["f32"], ["f32"]) == "([])->([])"


def test_results_have_the_maps_of_what_they_begin_with() -> None:
    printed = _rule(
        _MATMUL,
        '["parallel", "parallel", "reduction"]',
        ["4x8xf32", "8x16xf32", "4x16xf32"],
        ["4x16xf32"],
        ", operandSegmentSizes = array<i32: 2, 1>",
    )
    assert printed == "([i, k], [k, j], [i, j])->([i, j]) {i=4, j=16, k=8} need_replication={k}"


@pytest.mark.parametrize(
    "more", ["", ", operandSegmentSizes = array<i32: 1, 1>", ", operandSegmentSizes = array<i32: 3, 0>",
             ", operandSegmentSizes = 17 : i32"]
)  # fmt: skip
def test_results_need_maps_where_nothing_says_what_they_begin_with(more: str) -> None:
    operands = ["4x8xf32", "8x16xf32", "4x16xf32"]
    assert _rule(_MATMUL, '["parallel", "parallel", "reduction"]', operands, ["4x16xf32"], more) is None


@pytest.mark.parametrize(
    ("maps", "iterators", "operands", "results"),
    [
        (["(i) -> (i)", "(i) -> (i)"], '["parallel", "parallel"]', ["4xf32"], ["4xf32"]),
        (["(i) -> (i)"], '["parallel"]', ["4xf32"], ["4xf32"]),
        (["(i) -> (i)", "(i) -> (i, i)"], '["parallel"]', ["4xf32"], ["4x4xf32"]),
        (["(i) -> (i)", "(i) -> (i * 2)"], '["parallel"]', ["4xf32"], ["8xf32"]),
        (["(i) -> (i)", "(i) -> (i)"], '["parallel"]', ["4xf32"], ["5xf32"]),
        (["(i) -> (i)", "(i) -> (i)"], '["parallel"]', ["4x4xf32"], ["4xf32"]),
        (["(i, j) -> (j)", "(i, j) -> (j)"], '["parallel"]', ["4xf32"], ["4xf32"]),
        (["(i) -> (i)", "(i) -> (i)"], "[]", ["4xf32"], ["4xf32"]),
        (["(i) -> (i)", "(i) -> (i)"], "17", ["4xf32"], ["4xf32"]),
    ],
)
def test_descriptions_that_do_not_fit_give_no_rule(
    maps: list[str], iterators: str, operands: list[str], results: list[str]
) -> None:
    assert _rule(maps, iterators, operands, results) is None


def test_ops_without_a_description_have_no_rule() -> None:
    text = 'func.func @main(%a: tensor<4xf32>) { "my.op"(%a) {a} : (tensor<4xf32>) -> ()\nreturn }'
    assert rule_for(read(load_module(text)).main.block.ops[0].signature) is None
