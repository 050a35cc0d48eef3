"""The worklist on programs of a few numbers."""

from __future__ import annotations

from shardwright.mesh import Mesh
from shardwright.propagation.compatible import Direction
from shardwright.propagation.engine import Numbers, StepTable, Worklist
from shardwright.propagation.step import Strategy
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


def _said(axis: str) -> TensorSharding:
    return TensorSharding.of(_MESH, [[axis]], open=True)


def test_a_sharding_flows_forward_and_back() -> None:
    worklist = _worklist([None, None, _said("x"), None], [(0, 1), (1, 2), (2, 3)])
    worklist.sweep()
    assert [worklist.numbers.shardings[n] for n in worklist.state] == [_said("x")] * 4


def test_the_first_to_arrive_wins() -> None:
    worklist = _worklist([_said("x"), None, _said("y")], [(0, 1), (2, 1)])
    worklist.sweep()
    assert worklist.numbers.shardings[worklist.state[1]] == _said("x")


def test_ops_that_are_not_due_are_not_visited() -> None:
    worklist = _worklist([_said("x"), None], [(0, 1)])
    worklist.due[:] = b"\x00"
    worklist.sweep()
    assert worklist.state[1] == 0
    worklist.mark(0)
    worklist.sweep()
    assert worklist.state[1] == worklist.state[0]


def test_a_group_changes_as_one() -> None:
    worklist = _worklist([_said("x"), None, None, None], [(0, 1), (2, 3)])
    worklist.groups.update({1: [1, 2], 2: [1, 2]})
    worklist.sweep()
    assert len(set(worklist.state)) == 1


def test_steps_are_remembered_by_their_numbers() -> None:
    worklist = _worklist([_said("x"), None, None], [(0, 1), (0, 2)])
    worklist.sweep()
    table = worklist.tables[0]
    assert table is not None
    assert set(table) == {(1, 0)}
