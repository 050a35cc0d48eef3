from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.einsum import parse_einsum
from shardwright.rules.text import format_rule


def _signature(operands: list[tuple[int, ...]], results: list[tuple[int, ...]]) -> Signature:
    left, right = (tuple(TensorType(shape, "f32") for shape in side) for side in (operands, results))
    return Signature("my.op", (), left, right)


@pytest.mark.parametrize(
    ("text", "operands", "results", "rule"),
    [
        (
            "b i k, b k j -> b i j",
            [(2, 3, 4), (2, 4, 5)],
            [(2, 3, 5)],
            "([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=3, k=5, l=4} reduction={l}, custom",
        ),
        ("(h d), d -> h", [(8,), (2,)], [(4,)], "([ij], [j])->([i]) {i=4, j=2} reduction={j}, custom"),
        ("batch, -> batch", [(4,), ()], [(4,)], "([i], [])->([i]) {i=4}, custom"),
        ("i _ -> _ i", [(4, 7)], [(9, 4)], "([i, j])->([k, i]) {i=4, j=1, k=1}, custom"),
        ("-> i", [], [(4,)], "()->([i]) {i=4}, custom"),
        ("i -> i, i", [(4,)], [(4,), (4,)], "([i])->([i], [i]) {i=4}, custom"),
    ],
)
def test_a_line_is_a_rule(
    text: str, operands: list[tuple[int, ...]], results: list[tuple[int, ...]], rule: str
) -> None:
    printed = format_rule(parse_einsum(text).rule(_signature(operands, results)))
    assert printed == f"#sdy.op_sharding_rule<{rule}>"


def test_factors_that_no_result_has_are_whole_where_they_are_not_summed() -> None:
    signature = _signature([(4, 8)], [(4,)])
    assert parse_einsum("i k -> i", reduction=False).rule(signature).need_replication == {1}
    assert parse_einsum("i k -> i", need_replication={"k"}).rule(signature).reduction == frozenset()
    assert parse_einsum("i k -> i", permutation={"i"}).rule(signature).permutation == {0}
    assert parse_einsum("i k -> i", blocked={"i"}).rule(signature).blocked == {0}


@pytest.mark.parametrize(
    ("text", "column", "cause"),
    [
        ("b i k, b k j - b i j", 14, "expected the name of a factor, got '-'"),
        ("i i -> i", 3, "'i' stands twice in one tensor"),
        ("(i j -> i", 6, "expected the name of a factor, got '->'"),
        ("i j ->  ...", 9, "expected the name of a factor, got '.'"),
        ("i j", 4, "expected ->, got 'the end'"),
        ("i -> i -> i", 8, "expected the end, got '->'"),
        ("() -> i", 2, "expected the name of a factor, got ')'"),
        ("2 -> i", 1, "expected the name of a factor, got '2'"),
    ],
)
def test_malformed_text_is_refused_at_its_column(text: str, column: int, cause: str) -> None:
    with pytest.raises(ShardingError) as caught:
        parse_einsum(text)
    assert caught.value.diagnostic.message.endswith(f"column {column}")
    assert caught.value.diagnostic.cause == cause


def test_a_name_that_is_no_factor_is_refused() -> None:
    with pytest.raises(ShardingError, match="need_replication names 'z', which is no factor"):
        parse_einsum("i -> i", need_replication={"z"})
    with pytest.raises(ShardingError, match="permutation names 'z', which is no factor"):
        parse_einsum("i -> i", permutation={"z"})
    with pytest.raises(ShardingError, match="blocked names 'z', which is no factor"):
        parse_einsum("i -> i", blocked={"z"})


def test_names_are_words_of_a_text_or_listed() -> None:
    for names in ("head k", ["head", "k"], {"k", "head"}):
        assert parse_einsum("head k -> head", need_replication=names).need_replication == {"head", "k"}
    with pytest.raises(ShardingError, match="blocked names 'hk', which is no factor"):
        parse_einsum("h k -> h", blocked="hk")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": 17}, "no text"),
        ({"text": "i -> i", "need_replication": 3}, "need_replication is 3, not names"),
        ({"text": "i -> i", "blocked": [3]}, "blocked names 3, which is no factor"),
        ({"text": "i k -> i", "reduction": "k"}, "reduction is 'k', not True or False"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_einsum(**arguments)


def test_a_factor_is_of_one_kind() -> None:
    with pytest.raises(ShardingError, match="'i' is in need_replication and in permutation"):
        parse_einsum("i -> i", need_replication={"i"}, permutation={"i"})


@pytest.mark.parametrize(
    ("text", "operands", "results", "cause"),
    [
        ("i -> i", [(4,), (4,)], [(4,)], "the rule has 1 operands, the op 2"),
        ("i -> i", [(4,)], [(4,), (4,)], "the rule has 1 results, the op 2"),
        ("i -> i", [(4, 4)], [(4,)], "the rule has 1 dimension for operand 0, its type is tensor<4x4xf32>"),
        ("i, i -> i", [(4,), (5,)], [(4,)], "i is 4, dimension 0 of operand 1 has 5 elements"),
        ("(i j), j -> i", [(9,), (2,)], [(4,)], "i × j is 8, dimension 0 of operand 0 has 9 elements"),
        ("(i j), j ->", [(9,), (2,)], [()], "dimension 0 of operand 0 has 9 elements, which 2 does not divide"),
        ("(i j) -> (i j)", [(8,)], [(8,)], "the sizes of i, j do not follow from the types"),
    ],
)
def test_an_op_that_the_rule_does_not_fit_is_refused(
    text: str, operands: list[tuple[int, ...]], results: list[tuple[int, ...]], cause: str
) -> None:
    with pytest.raises(ShardingError, match="does not fit the op") as caught:
        parse_einsum(text).rule(_signature(operands, results))
    assert caught.value.diagnostic.op == "my.op"
    assert caught.value.diagnostic.cause == cause


@given(st.text("abij ,->()_", max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        einsum = parse_einsum(text)
    except ShardingError as error:
        assert "column" in str(error)
    else:
        assert "->" in einsum.text
        assert all(einsum.factors.count(name) == 1 for name in einsum.factors)
