"""The worklist on programs of a few numbers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.step import Strategy, step
from shardwright.propagation.engine.worklist import Numbers, StepTable, Worklist
from shardwright.rules.rule import identity_rule
from shardwright.sharding import TensorSharding

_MESH = Mesh(x=2, y=2)


def _worklist(shardings: list[TensorSharding | None], ops: list[tuple[int, int]]) -> Worklist:
    """Identity ops from one value to another; a value's users are noted last first."""
    numbers = Numbers()
    rule = identity_rule((8,))
    table = StepTable(numbers, rule, (Direction.BOTH,), False, Strategy.AGGRESSIVE)
    notify = [
        [n for n, (_, made) in enumerate(ops) if made == value]
        + [n for n, (read, _) in reversed(list(enumerate(ops))) if read == value]
        for value in range(len(shardings))
    ]
    worklist = Worklist(numbers, [numbers.number(s) for s in shardings], ops, notify, {})
    worklist.tables[:] = [table] * len(ops)
    worklist.due[:] = b"\x01" * len(ops)
    return worklist


def _split_by(axis: str) -> TensorSharding:
    return TensorSharding.of(_MESH, [[axis]], open=True)


def test_a_sharding_flows_forward_and_back() -> None:
    worklist = _worklist([None, None, _split_by("x"), None], [(0, 1), (1, 2), (2, 3)])
    worklist.sweep()
    assert [worklist.numbers.shardings[n] for n in worklist.state] == [_split_by("x")] * 4


def test_the_first_to_arrive_wins() -> None:
    worklist = _worklist([_split_by("x"), None, _split_by("y")], [(0, 1), (2, 1)])
    worklist.sweep()
    assert worklist.numbers.shardings[worklist.state[1]] == _split_by("x")


def test_ops_that_are_not_due_are_not_visited() -> None:
    worklist = _worklist([_split_by("x"), None], [(0, 1)])
    worklist.due[:] = b"\x00"
    worklist.sweep()
    assert worklist.state[1] == 0
    worklist.mark(0)
    worklist.sweep()
    assert worklist.state[1] == worklist.state[0]


def test_a_group_changes_as_one() -> None:
    worklist = _worklist([_split_by("x"), None, None, None], [(0, 1), (2, 3)])
    worklist.groups.update({1: [1, 2], 2: [1, 2]})
    worklist.sweep()
    assert len(set(worklist.state)) == 1


def test_steps_are_remembered_by_their_numbers() -> None:
    worklist = _worklist([_split_by("x"), None, None], [(0, 1), (0, 2)])
    worklist.sweep()
    table = worklist.tables[0]
    assert table is not None
    assert set(table) == {(1, 0)}


@st.composite
def _shardings(draw: st.DrawFn, rank: int) -> TensorSharding | None:
    """One of few, so that the tensors of an op often have the same axes."""
    axes = draw(st.permutations(draw(st.sampled_from([["x"], ["x", "y"], []]))))
    dims: list[list[str]] = [[] for _ in range(rank)]
    for axis in axes:
        dims[draw(st.integers(0, rank - 1))].append(axis)
    sharding = TensorSharding.of(_MESH, dims, open=draw(st.booleans()))
    kept = [] if axes else draw(st.sampled_from([["x"], []]))
    annotated = replace(sharding, replicated=tuple(map(_MESH.axis, kept)))
    return draw(st.sampled_from([annotated, None]))


@given(st.data())
def test_what_is_plain_is_what_a_step_says(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    rule = identity_rule((8, 3, 16)[:rank], data.draw(st.integers(1, 3)))
    shardings = [data.draw(_shardings(rank)) for _ in (*rule.operands, *rule.results)]
    ways = (data.draw(st.sampled_from(list(Direction))),) * rank
    elementwise, strategy = data.draw(st.booleans()), data.draw(st.sampled_from(Strategy))
    numbers = Numbers()
    changes = StepTable(numbers, rule, ways, elementwise, strategy)[tuple(map(numbers.number, shardings))]
    updates = step(rule, tuple(shardings), ways, elementwise, strategy)
    assert {tensor: numbers.shardings[number] for tensor, number in changes} == dict(updates)
