from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.notation.sdy.factors import factor_symbol
from shardwright.rules.rule import ShardingRule
from shardwright.rules.text import format_rule, parse_rule


@st.composite
def rules(draw: st.DrawFn) -> ShardingRule:
    count = draw(st.integers(0, 25))
    sizes = tuple(draw(st.lists(st.integers(0, 99), min_size=count, max_size=count)))
    factor = st.integers(0, count - 1) if count else st.nothing()
    dim = st.lists(factor, min_size=1, max_size=3).map(tuple)
    tensors = st.lists(st.lists(dim, max_size=3).map(tuple), max_size=3).map(tuple) if count else st.just(((), ()))
    some = st.frozensets(factor, max_size=4) if count else st.just(frozenset())
    return ShardingRule(
        sizes,
        draw(tensors),
        draw(tensors),
        draw(some),
        draw(some),
        draw(some),
        draw(some),
        draw(st.booleans()),
    )


@given(rules())
def test_text_holds_the_whole_rule(rule: ShardingRule) -> None:
    assert parse_rule(format_rule(rule)) == rule


@pytest.mark.parametrize(("factor", "symbol"), [(0, "i"), (17, "z"), (18, "z_1"), (30, "z_13")])
def test_symbols_go_from_i_to_z_and_on(factor: int, symbol: str) -> None:
    assert factor_symbol(factor) == symbol


def test_every_part_is_printed_in_order() -> None:
    rule = ShardingRule(
        (8, 2, 4, 3),
        (((0,), (1, 2)), ((3,),)),
        (((0,), (1,), (2,)),),
        frozenset({3}),
        frozenset({0}),
        frozenset({1}),
        frozenset({2}),
        True,
    )
    assert format_rule(rule) == (
        "#sdy.op_sharding_rule<([i, jk], [l])->([i, j, k]) {i=8, j=2, k=4, l=3} "
        "reduction={l} need_replication={i} permutation={j} blocked_propagation={k}, custom>"
    )


def test_a_rule_without_factors_has_no_sizes() -> None:
    assert format_rule(ShardingRule((), ((), ()), ((),))) == "#sdy.op_sharding_rule<([], [])->([])>"


@pytest.mark.parametrize(
    "text",
    [
        "#sdy.op_sharding_rule<([i])->([j]) {i=2}>",
        "#sdy.op_sharding_rule<([i])->([i]) {j=2}>",
        "#sdy.op_sharding_rule<([i])->([i]) {i=2} summation={i}>",
        "[i]->[i]",
    ],
)
def test_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ShardingError, match="not a sharding rule"):
        parse_rule(text)
