"""A rewriter keeps what it knows true, whatever is done in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import RETURNS
from shardwright.ir.rewrite.order import Order
from shardwright.ir.rewrite.rewriter import Point, Rewriter
from shardwright.ir.rewrite.uses import Uses
from shardwright.ir.signature import Signature
from shardwright.notation.modules import read, write
from tests.ir.random_programs import ARITHMETIC, SCALAR, computed, ill_placed, random_graph, signature

RANDOMS = st.randoms(use_true_random=False)
ARGUMENTS = (3, 0)

CHAIN = """
func.func @main(%a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.negate %a : tensor<i32>
  %1 = stablehlo.add %0, %0 : tensor<i32>
  %2 = stablehlo.multiply %1, %0 : tensor<i32>
  return %2 : tensor<i32>
}"""


def _ops(rewriter: Rewriter, block: Block) -> list[Op]:
    """The ops of a block as they stand, changes that are not written included."""
    first = rewriter.start(block).before
    return [] if first is None else [first, *rewriter.following(first)]


def _places(
    rewriter: Rewriter, block: Block, seen: tuple[int, ...] = ()
) -> Iterator[tuple[Op, Block, tuple[int, ...]]]:
    """Every op, its block, and the values that it may read."""
    seen += block.arguments
    for op in _ops(rewriter, block):
        yield op, block, seen
        for region in op.regions:
            yield from _places(rewriter, region, seen)
        seen += op.results


def _create(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    name = random.choice(list(ARITHMETIC))
    operands = [random.choice(seen) for _ in range(ARITHMETIC[name])]
    rewriter.create(signature(name), operands, rewriter.before(op), "test")


def _clone(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    values = {value: random.choice(seen) for value in op.operands if random.random() < 0.5}
    if op.results:
        rewriter.clone(op, rewriter.after(op), "test", values)


def _replace(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    if op.results:
        rewriter.replace(op, [random.choice(seen)], "test")


def _erase(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    if rewriter.uses.is_read(op):
        changes = len(rewriter.changes)
        with pytest.raises(RuntimeError, match=f"{op.name} cannot be erased while .* reads it"):
            rewriter.erase(op, "test")
        assert op in rewriter
        assert len(rewriter.changes) == changes
    elif op.results:
        rewriter.erase(op, "test")
        assert op not in rewriter


def _set_operands(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    rewriter.set_operands(op, [random.choice(seen) for _ in op.operands], "test")


def _replace_uses(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    for old in op.results:
        readers = list(rewriter.uses[old])
        rewriter.replace_uses(
            old, random.choice(seen), "test", by=random.sample(readers, random.randint(0, len(readers)))
        )


def _move(random: Random, rewriter: Rewriter, op: Op, seen: tuple[int, ...]) -> None:
    if not op.results:
        return
    inside = {value for inner in rewriter.written(op).walk() for value in inner.results}
    (block,) = [block for other, block, _ in _places(rewriter, rewriter.block) if other is op]
    allowed: list[Point] = []
    for other, there, known in _places(rewriter, rewriter.block):
        if there is block and op.results[0] not in known and {*known, *inside}.issuperset(op.reads()):
            allowed.append(rewriter.before(other))
    rewriter.move(op, random.choice(allowed), "test")


EDITS: list[Callable[[Random, Rewriter, Op, tuple[int, ...]], None]] = [
    _create,
    _clone,
    _replace,
    _erase,
    _set_operands,
    _replace_uses,
    _move,
]


def _check(graph: Graph, rewriter: Rewriter) -> None:
    rewriter.write()
    again = Uses(graph.main.block, len(graph.types))
    for value in range(len(graph.types)):
        assert rewriter.uses.count(value) == again.count(value)  # before it is asked for, and so a dictionary
        assert rewriter.uses[value] == again[value]
    assert not list(ill_placed(graph.main.block))
    assert write(graph).operation.verify()
    for op in graph.walk():
        assert op in rewriter
        assert all(rewriter.maker(value) is op for value in op.results)


@settings(max_examples=60, deadline=None)
@given(RANDOMS)
def test_random_edits_leave_a_program_and_its_uses(random: Random) -> None:
    graph = random_graph(random)
    with Rewriter(graph, graph.main.block) as rewriter:
        for _ in range(random.randint(1, 20)):
            op, _, seen = random.choice(list(_places(rewriter, graph.main.block)))
            random.choice(EDITS)(random, rewriter, op, seen)
            if random.random() < 0.2:
                _check(graph, rewriter)
        _check(graph, rewriter)


@settings(max_examples=60, deadline=None)
@given(RANDOMS)
def test_edits_that_mean_nothing_change_no_result(random: Random) -> None:
    graph = random_graph(random)
    before = computed(graph, ARGUMENTS)
    with Rewriter(graph, graph.main.block) as rewriter:
        for _ in range(random.randint(1, 10)):
            op, _, _ = random.choice(list(_places(rewriter, graph.main.block)))
            if op.results and random.random() < 0.5:
                copy = rewriter.clone(op, rewriter.after(op), "test")
                rewriter.replace_uses(op.results[0], copy.results[0], "test")
                rewriter.erase(op, "test")
            elif op.operands:
                point, value = rewriter.before(op), random.choice(op.operands)
                negative = rewriter.create(signature("stablehlo.negate"), (value,), point, "test")
                positive = rewriter.create(signature("stablehlo.negate"), negative.results, point, "test")
                rewriter.replace_uses(value, positive.results[0], "test", by=[op])
        _check(graph, rewriter)
    assert computed(graph, ARGUMENTS) == before


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=30))
def test_an_order_is_a_list(edits: list[tuple[bool, int]]) -> None:
    listed = [Op(signature("stablehlo.negate"), (0,), (number,)) for number in range(3)]
    order = Order(listed)
    for puts, place in edits:
        if puts:
            place %= len(listed) + 1
            op = Op(signature("stablehlo.negate"), (0,), (0,))
            order.put(op, listed[place] if place < len(listed) else None)
            listed.insert(place, op)
        elif listed:
            order.take(listed.pop(place % len(listed)))
        assert list(order) == listed
        assert order.last is (listed[-1] if listed else None)


def _chain() -> tuple[Graph, list[Op]]:
    graph = read(load_module(CHAIN))
    return graph, graph.main.block.ops


def test_the_newest_reader_stands_last_and_is_moved_first_as_in_mlir() -> None:
    graph, (negate, add, multiply, _) = _chain()
    with Rewriter(graph, graph.main.block) as rewriter:
        assert rewriter.uses[negate.results[0]] == {add: 2, multiply: 1}
        assert rewriter.uses.count(negate.results[0]) == 3
        rewriter.replace_uses(negate.results[0], negate.operands[0], "test")
        assert list(rewriter.uses[negate.operands[0]].items()) == [(negate, 1), (multiply, 1), (add, 2)]


def test_ops_put_in_at_one_point_stand_one_behind_the_other() -> None:
    graph, (negate, *_) = _chain()
    with Rewriter(graph, graph.main.block) as rewriter:
        points = rewriter.behind(negate.results[0]), rewriter.behind(negate.operands[0]), rewriter.end(graph.main.block)
        for point in points:
            for name in ("stablehlo.add", "stablehlo.multiply"):
                rewriter.create(signature(name), negate.operands * 2, point, "test")
    two = ["add", "multiply"]
    names = [op.name.partition(".")[2] for op in graph.walk()]
    assert names == [*two, "negate", *two, *two, *two, "return"]


@settings(max_examples=20, deadline=None)
@given(RANDOMS)
def test_ops_are_arranged_in_another_order(random: Random) -> None:
    graph = random_graph(random)
    block = graph.main.block
    *ops, last = block.ops
    with Rewriter(graph, block) as rewriter:
        rewriter.arrange(block, ops[::-1], "test")
        assert block.ops == [*ops[::-1], last]
        rewriter.arrange(block, ops, "test")
        assert block.ops == [*ops, last]
        with pytest.raises(ValueError, match="are not its ops"):
            rewriter.arrange(block, [*ops, last], "test")
    assert all(change.what == "moved" for change in rewriter.changes)


def test_a_change_tells_where_and_why() -> None:
    graph, (negate, *_) = _chain()
    with Rewriter(graph, graph.main.block) as rewriter:
        rewriter.replace(negate, negate.operands, "signs do not matter here")
    told = [change.text(graph.locations) for change in rewriter.changes]
    assert [text.partition(": ")[2] for text in told] == [
        "stablehlo.multiply is given other operands: signs do not matter here",
        "stablehlo.add is given other operands: signs do not matter here",
        "stablehlo.negate is replaced: signs do not matter here",
    ]
    assert told[-1].startswith("-:3")


def test_what_a_region_reads_is_forgotten_with_the_op_that_holds_it() -> None:
    graph = read(
        load_module("""
func.func @main(%a: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.negate %a : tensor<i32>
  %1 = "stablehlo.case"(%a) ({
    %2 = stablehlo.negate %0 : tensor<i32>
    stablehlo.return %2 : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %a : tensor<i32>
}""")
    )
    negate, case, last = graph.main.block.ops
    inner = case.regions[0].ops[0]
    with Rewriter(graph, graph.main.block) as rewriter:
        rewriter.erase(case, "test")
        assert inner not in rewriter
        rewriter.erase(negate, "test")
    assert graph.main.block.ops == [last]


def test_many_ops_that_read_one_value_are_erased_one_by_one() -> None:
    """Were it to cost more in larger blocks, or with more readers, this would take minutes."""
    graph, (negate, *_, last) = _chain()
    constant = Signature("stablehlo.constant", (("value", "dense<1> : tensor<i32>"),), (), (SCALAR,))
    with Rewriter(graph, graph.main.block) as rewriter:
        one = rewriter.create(constant, (), rewriter.before(negate), "test")
        value = one.results[0]
        made = [
            rewriter.create(signature("stablehlo.negate"), (value,), rewriter.after(negate), "test")
            for _ in range(20_000)
        ]
        for op in made:
            rewriter.erase(op, "test")
        rewriter.erase(one, "test")
    assert len(graph.main.block.ops) == 4
    assert all(op.name not in RETURNS or op is last for op in graph.walk())
