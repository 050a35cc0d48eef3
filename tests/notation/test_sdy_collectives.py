"""The collectives of the sdy dialect: what each does to shardings, checked by jaxlib's verifier or by us."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.frontends.load import parse_source
from shardwright.ir.context import load_module
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.notation.sdy.verify import verify
from tests.notation.test_sdy_verify import LINE, SHARDINGS, check, line, program, refused

GATHERED = '[{"a", "b"}, {}, {}]'
SPLIT = '[{"a"}, {}, {}]'
PARTIAL = '[{"a"}, {}, {}], unreduced={"b", "d"}'

COLLECTIVES = [
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@m, [{}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"a"}, {}, {}] %x out_sharding=<@m, [{"b"}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"b", "b"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"q"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@order, [{"a"}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@third, []>'),
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"d"}>'),
    (PARTIAL, '%r = sdy.all_gather [{"a"}, {}, {}] %x out_sharding=<@m, [{}, {}, {}], unreduced={"d"}>'),
    (SPLIT, '%r = sdy.all_slice [{"b"}, {}, {}] %x out_sharding=<@m, [{"b"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_slice [{"a"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_slice [{}, {"b"}, {"b"}] %x out_sharding=<@m, [{"a"}, {"b"}, {"b"}]>'),
    (PARTIAL, '%r = sdy.all_slice [{"b"}, {}, {}] %x out_sharding=<@m, [{"a", "b"}, {}, {}], unreduced={"d"}>'),
    (PARTIAL, '%r = sdy.all_slice [{"c"}, {}, {}] %x out_sharding=<@m, [{"a", "c"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.all_reduce {"b", "d"} %x out_sharding=<@m, [{}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_reduce {"a"} %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    ('[{}, {}, {}], replicated={"b"}', '%r = sdy.all_reduce {"b"} %x out_sharding=<@m, [{}, {}, {}]>'),
    (PARTIAL, '%r = sdy.all_reduce {"b"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"b", "d"}>'),
    (PARTIAL, '%r = sdy.all_reduce {"b"} %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.all_reduce {"b"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"c", "d"}>'),
    (PARTIAL, '%r = sdy.all_reduce {"d", "b"} %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.all_reduce {"b", "b"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"d"}>'),
    (PARTIAL, '%r = sdy.all_reduce {"q"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"b", "d"}>'),
    (PARTIAL, '%r = sdy.all_reduce {"b", "d"} %x out_sharding=<@other, [{"a"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.reduce_scatter [{"b"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}], unreduced={"d"}>'),
    (PARTIAL, '%r = sdy.reduce_scatter [{"b"}, {}, {}] %x out_sharding=<@m, [{"a", "b"}, {}, {}]>'),
    (SPLIT, '%r = sdy.reduce_scatter [{}, {"a"}, {}] %x out_sharding=<@m, [{"a"}, {"a"}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [{}: 0->1] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [{"a"}: -1->1] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [{"a"}: 0->3] %x out_sharding=<@m, [{}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [{"a"}: 0->0] %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_to_all [{"a"}: 0->1] %x out_sharding=<@m, [{}, {}, {}]>'),
    (GATHERED, '%r = sdy.all_to_all [{"a"}: 0->1] %x out_sharding=<@m, [{"b"}, {"a"}, {}]>'),
    ('[{"a"}, {"b"}, {}]', '%r = sdy.all_to_all [{"a"}: 0->2, {"b"}: 1->2] %x out_sharding=<@m, [{}, {}, {"a", "b"}]>'),
    ('[{"a"}, {"b"}, {}]', '%r = sdy.all_to_all [{"b"}: 1->2, {"a"}: 0->1] %x out_sharding=<@m, [{}, {"a"}, {"b"}]>'),
    (PARTIAL, '%r = sdy.all_to_all [{"a"}: 0->1] %x out_sharding=<@m, [{}, {"a"}, {}]>'),
    (SPLIT, '%r = sdy.collective_permute %x out_sharding=<@m, [{"c"}, {}, {}]>'),
    (SPLIT, '%r = sdy.collective_permute %x out_sharding=<@other, [{"a":(1)2}, {}, {}]>'),
    (PARTIAL, '%r = sdy.collective_permute %x out_sharding=<@m, [{"b"}, {}, {}], unreduced={"a", "d"}>'),
    (SPLIT, '%r = sdy.collective_permute %x out_sharding=<@m, [{"b"}, {}, {}], unreduced={"d"}>'),
]


@pytest.mark.parametrize(("before", "op"), COLLECTIVES, ids=[op[9:] for _, op in COLLECTIVES])
def test_a_collective_does_what_its_result_states(before: str, op: str) -> None:
    diagnostic = refused(program(op, before))
    assert line(diagnostic) == LINE
    assert diagnostic.cause
    assert diagnostic.remedy


def test_the_operand_of_a_collective_has_a_sharding() -> None:
    text = program(
        '%e = stablehlo.tanh %x : tensor<8x8x8xf32>\n%r = sdy.all_reduce {"b"} %e out_sharding=<@m, [{}, {}, {}]>'
    )
    assert line(refused(text)) == LINE + 1
    assert line(refused(text.replace("all_reduce", "all_reduce max"))) == LINE + 1


KINDS = '[{"a"}, {}, {}], unreduced=max{"b", "d"}'


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ('sdy.all_reduce min {"b"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced=max{"d"}>', "reduction by min"),
        ('sdy.all_reduce max {"b"} %x out_sharding=<@m, [{"a"}, {}, {}], unreduced=min{"d"}>', "not max"),
        ('sdy.all_reduce max {"b"} %x out_sharding=<@m, [{"a"}, {}, {}]>', "not max"),
        ('sdy.all_reduce max {"b", "d"} %x out_sharding=<@m, [{}, {}, {}]>', "does not take"),
        (
            'sdy.all_gather [{"a"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}], unreduced=max{"b", "d"}>',
            "does not take",
        ),
        (
            'sdy.all_slice [{"c"}, {}] %x out_sharding=<@m, [{"a", "c"}, {}, {}], unreduced=max{"b", "d"}>',
            "does not take",
        ),
        ('sdy.all_to_all [{"a"}: 0->9] %x out_sharding=<@m, [{}, {}, {}], unreduced=max{"b", "d"}>', "does not take"),
        ('sdy.collective_permute %x out_sharding=<@m, [{"c"}, {}, {}], unreduced=max{"b", "d"}>', "does not take"),
        (
            'sdy.reduce_scatter max [{"b"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}], unreduced=max{"d"}>',
            "not take",
        ),
    ],
)
@pytest.mark.usefixtures("sums_only")  # what has kinds itself checks them itself
def test_collectives_with_kinds_of_reduction_are_checked_too(op: str, words: str) -> None:
    diagnostic = refused(program(f"%r = {op}", KINDS))
    assert line(diagnostic) == LINE
    assert words in diagnostic.message
    assert diagnostic.op == op.split()[0]


ACCEPTED = [
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@m, [{"a", ?}p1, {}, {}]>'),
    (GATHERED, '%r = sdy.all_gather [{"b"}, {}, {}] %x out_sharding=<@m, [{"a"}, {}, {}], replicated={"b"}>'),
    (GATHERED, '%r = sdy.all_gather [{}, {}, {}] %x out_sharding=<@m, [{"a", "b"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.all_gather [{"a"}, {}, {}] %x out_sharding=<@m, [{}, {}, {}], unreduced={"b", "d"}>'),
    ('[{"c"}, {}, {}]', '%r = sdy.all_gather [{"c":(2)2}, {}, {}] %x out_sharding=<@m, [{"c":(1)2}, {}, {}]>'),
    ('[{"c":(1)2}, {}, {}]', '%r = sdy.all_slice [{"c":(2)2}, {}, {}] %x out_sharding=<@m, [{"c"}, {}, {}]>'),
    ('[{}, {}, {}], replicated={"b"}', '%r = sdy.all_slice [{"b"}, {}, {}] %x out_sharding=<@m, [{"b"}, {}, {}]>'),
    (SPLIT, '%r = sdy.all_reduce {"b"} %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (
        '[{}, {}, {}], unreduced={"c"}',
        '%r = sdy.all_reduce {"c":(1)2} %x out_sharding=<@m, [{}, {}, {}], unreduced={"c":(2)2}>',
    ),
    (PARTIAL, '%r = sdy.reduce_scatter [{"b"}, {"d"}, {}] %x out_sharding=<@m, [{"a", "b"}, {"d"}, {}]>'),
    (SPLIT, '%r = sdy.reduce_scatter [{"b"}, {}, {}] %x out_sharding=<@m, [{"a", "b"}, {}, {}]>'),
    (SPLIT, '%r = sdy.collective_permute %x out_sharding=<@order, [{"a"}, {}, {}]>'),
    (KINDS, '%r = sdy.all_reduce max {"b", "d"} %x out_sharding=<@m, [{"a"}, {}, {}]>'),
    (KINDS, '%r = sdy.reduce_scatter max [{"b"}, {"d"}, {}] %x out_sharding=<@m, [{"a", "b"}, {"d"}, {}]>'),
    (KINDS, '%r = sdy.all_to_all [{"a"}: 0->2] %x out_sharding=<@m, [{}, {}, {"a"}], unreduced=max{"b", "d"}>'),
    (SPLIT, '%r = sdy.reshard %x <@other, [{"a"}, {}, {}]>'),
    (PARTIAL, '%r = sdy.reshard %x <@m, [{"a"}, {}, {}]>'),
]


@pytest.mark.parametrize(("before", "op"), ACCEPTED, ids=[op[9:] for _, op in ACCEPTED])
def test_valid_collectives_are_accepted_before_propagation(before: str, op: str) -> None:
    check(program(op, before))
    prepared = prepare(program(op, before))
    verify(load_module(prepared), "f.mlir")
    verify(load_module(prepared), "f.mlir", prepared.encode())


def test_the_user_sees_line_cause_and_remedy_of_all_that_jaxlib_refuses() -> None:
    texts = [program(op, before) for before, op in COLLECTIVES]
    texts += [program("%r = stablehlo.tanh %x", sharding) for sharding in SHARDINGS.values()]
    seen = 0
    for text in texts:
        try:
            load_module(text, "f.mlir")
        except ShardingError:
            seen += 1
            with pytest.raises(ShardingError) as error:
                parse_source(text, "f.mlir")
            diagnostic = error.value.diagnostic
            assert line(diagnostic) in (LINE - 1, LINE)
            assert diagnostic.cause
            assert diagnostic.remedy
    assert seen > 40
