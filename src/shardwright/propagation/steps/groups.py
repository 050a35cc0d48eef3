"""Sharding groups: values that a program wants split alike, whatever propagation decides.

Groups that share a value are one group. A group lies inside or outside a manual computation, not on both sides, and
all its values have the same shape. Where some have shardings of their own at the start and these agree, all members get
them; where they do not, each member keeps its own, and an open constraint behind it takes its place in the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.graph import Op
from shardwright.ir.locations import LocationTable
from shardwright.ir.ops import MANUAL
from shardwright.ir.rewrite.rewriter import Rewriter
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.propagation.working import CONSTRAINT, GROUP, Working
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Contradicted", "collect_groups", "united"]


Contradicted = Callable[[int, int], None]
"""Called with the number of a group whose members contradict one another, and the first of them."""


def collect_groups(
    working: Working,
    locations: LocationTable,
    contradicted: Contradicted | None = None,
    *,
    keep_numbers: bool = False,
) -> None:
    """Find the groups, check them, and bring the shardings of their members together.

    `contradicted` hears of groups whose members do not have one sharding. Groups have their turns in the order of
    their numbers: those of `united`, or with `keep_numbers` those that the program gives them, the lowest where
    several are one.

    Raises:
        ShardingError: members of different shape, or on both sides of a manual computation; at the op that is the
            first to differ.
    """
    if GROUP not in working.special:
        return
    of_value: dict[int, list[int]] = {}
    first: dict[int, tuple[TensorType, Op | None]] = {}
    around = _around(working)
    for op in [op for op in working.block.walk() if op.signature.name == GROUP]:
        number = int(decode(op.signature.text("group_id") or "0"))
        value = op.operands[0]
        this = working.types[value], around.get(op)
        _check(op, number, first.setdefault(number, this), this, locations)
        of_value.setdefault(value, []).append(number)
    numbers = united(of_value.values())
    if keep_numbers:
        numbers = _as_written(numbers)
    members: dict[int, list[int]] = {}
    for value, its in of_value.items():
        members.setdefault(numbers[its[0]], []).append(value)
    working.groups = [members[number] for number in sorted(members)]
    with working.rewriter() as rewriter:
        for number, group in sorted(members.items()):
            leader = group[0]
            if not _agree(working, group, rewriter) and contradicted is not None:
                contradicted(number, leader)


def _check(
    op: Op,
    number: int,
    first: tuple[TensorType, Op | None],
    this: tuple[TensorType, Op | None],
    locations: LocationTable,
) -> None:
    """Compare the type and the manual computation around a member with those of the first member of its group."""
    where = str(locations[op.location])
    if first[1] is not this[1]:
        raise ShardingError(
            f"sharding group {number} crosses the boundary of a manual computation",
            op=GROUP,
            location=where,
            cause="another of its values lies on the other side, where shapes and axes are others",
            remedy="use another group_id inside the manual computation",
        )
    if first[0].shape != this[0].shape:
        raise ShardingError(
            f"the values of sharding group {number} have different shapes",
            op=GROUP,
            location=where,
            cause=f"this one is a {this[0]}, the first one a {first[0]}",
            remedy="group values of one shape",
        )


def _around(working: Working) -> dict[Op, Op]:
    """The manual computation right around each op that stands in one."""
    outer_first = reversed(working.special.get(MANUAL, ()))
    return {inner: op for op in outer_first for inner in op.walk() if inner is not op}


def united(of_values: Iterable[Sequence[int]]) -> dict[int, int]:
    """Groups that share a value are one: the number of each, counted from 0, for the groups that each value is in.

    >>> united([[7], [3, 5], [5, 9]])
    {7: 0, 3: 1, 5: 1, 9: 1}
    """
    leaders: dict[int, int] = {}

    def leader(group: int) -> int:
        while leaders.setdefault(group, group) != group:
            leaders[group] = leaders[leaders[group]]
            group = leaders[group]
        return group

    for groups in of_values:
        for group in groups:
            first, other = leader(groups[0]), leader(group)
            leaders[other] = first
    order = {group: index for index, group in enumerate(group for group in leaders if leaders[group] == group)}
    return {group: order[leader(group)] for group in leaders}


def _as_written(numbers: Mapping[int, int]) -> dict[int, int]:
    """What `united` gives, with the lowest number that the program gives to each in the place of a new one."""
    lowest: dict[int, int] = {}
    for written in sorted(numbers):
        lowest.setdefault(numbers[written], written)
    return {written: lowest[number] for written, number in numbers.items()}


def _agree(working: Working, group: list[int], rewriter: Rewriter) -> bool:
    """Give the members of a group one sharding, or constraints where they have several; whether they have one."""
    shardings = [working.shardings[working.holder_of(value)] for value in group]
    given = [sharding for sharding in shardings if sharding is not None and not _says_nothing(sharding)]
    if not given:
        return True
    if all(sharding == given[0] for sharding in given):
        for value in group:
            working.shardings[working.holder_of(value)] = given[0]
        return True
    nothing = replicated(given[0].mesh, given[0].rank, open=True)
    for index, value in enumerate(group):
        group[index] = _constrained(working, rewriter, value, nothing)
    return False


def _says_nothing(sharding: TensorSharding) -> bool:
    return all(dim.open and not dim.axes for dim in sharding.dims)


def _constrained(working: Working, rewriter: Rewriter, value: int, sharding: TensorSharding) -> int:
    """Put a constraint after `value` that all its users read instead; the constraint's result."""
    reason = "the members of a sharding group contradict one another"
    type, first = working.types[value], working.starts.get(value)
    point = rewriter.behind(value) if first is None else rewriter.before(first)
    op = rewriter.create(Signature(CONSTRAINT, (), (type,), (type,)), (value,), point, reason, shardings=(sharding,))
    if first is not None:
        working.starts |= {argument: op for argument, start in working.starts.items() if start is first}
    rewriter.replace_uses(value, op.results[0], reason, but=op)
    return op.results[0]
