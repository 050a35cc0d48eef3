"""The worklist: visits ops until nothing changes, in the order in which Shardy's greedy driver would.

Everything is a small number here. An op is its position in the program, a sharding a number in a table, and an op's
shardings together are a tuple of numbers that a dictionary, shared by all ops of the same rule, maps to what changes.

**The order.** The driver visits all ops once, first to last. When a value's sharding changes, the op that makes it and
those that use it are visited again: at once (last come, first served) if their turn has passed, else at their turn.
Ops that cannot have anything to do are never visited here: `due` marks those that might, and a scan for the next mark
replaces the visit to each. What is still due after the sweep (an op may not be done with what it changed itself) waits
for the next round, as in Shardy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from shardwright.propagation.engine.compatible import Direction
from shardwright.propagation.engine.preference import Preferred
from shardwright.propagation.engine.projection import extend_axes
from shardwright.propagation.engine.step import Shardings, Strategy, step
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["Change", "Changes", "Key", "Numbers", "StepTable", "Transform", "Worklist"]

_MAX_SWEEPS = 1
"""As many as MLIR's driver makes."""

Key = tuple[int, ...]
Changes = tuple[tuple[int, int], ...]
"""`(tensor, sharding number)` pairs."""

Change = tuple[int, "StepTable", Key, Changes]
"""An op, its table, its key, and what changes."""

Transform = Callable[[TensorSharding], TensorSharding]


class Numbers:
    """Shardings ↔ numbers; 0 is no sharding."""

    def __init__(self) -> None:
        """Make a table that knows only number 0."""
        self.shardings: list[TensorSharding | None] = [None]
        self._numbers: dict[TensorSharding, int] = {}
        self._opened: dict[int, int] = {0: 0}

    def number(self, sharding: TensorSharding | None) -> int:
        """The number of a sharding."""
        if sharding is None:
            return 0
        number = self._numbers.get(sharding)
        if number is None:
            number = self._numbers[sharding] = len(self.shardings)
            self.shardings.append(sharding)
        return number

    def opened(self, number: int) -> int:
        """The number of the sharding that says nothing but the axes of another; 0 where it has none."""
        answer = self._opened.get(number)
        if answer is None:
            sharding = self.shardings[number]
            answer = self._opened[number] = 0 if sharding is None else self.number(_opened(sharding))
        return answer


class StepTable(dict[Key, Changes]):
    """What one kind of op, at one round, does to the shardings of its tensors; filled when first asked.

    `before` and `after`, for the edges of manual computations, turn the last tensor's sharding into what the step sees
    and back.
    """

    def __init__(
        self,
        numbers: Numbers,
        rule: ShardingRule,
        directions: tuple[Direction, ...],
        elementwise: bool,
        strategy: Strategy | Preferred,
        before: Transform | None = None,
        after: Transform | None = None,
        conservative: bool = False,
    ) -> None:
        """Make an empty table."""
        super().__init__()
        self.numbers = numbers
        self.rule = rule
        self.directions = directions
        self.elementwise = elementwise
        self.strategy = strategy
        self.before = before
        self.after = after
        self.conservative = conservative
        alike = before is None and not conservative and _treats_alike(rule)
        self._way = directions[0] if alike and directions.count(directions[0]) == len(directions) else Direction.NONE

    def seen(self, key: Key) -> Shardings:
        """The shardings that a step sees for a key."""
        shardings = [self.numbers.shardings[number] for number in key]
        if self.before is not None and shardings[-1] is not None:
            shardings[-1] = self.before(shardings[-1])
        return tuple(shardings)

    def __missing__(self, key: Key) -> Changes:
        if not any(key):
            changes: Changes | None = ()
        else:
            changes = self._alike(key) if self._way else None
        if changes is None:
            changes = self._step(key)
        self[key] = changes
        return changes

    def _alike(self, key: Key) -> Changes | None:
        """The changes of an op whose tensors are all treated alike: most ops, most of the time.

        Those that have a sharding have the same axes; all others take these. `None` where a step has to tell.
        """
        axes = {self.numbers.opened(number) for number in key if number}
        if len(axes) > 1:
            return None
        (number,) = axes
        if not number or 0 not in key:
            return ()
        count = len(self.rule.operands)
        if self._way is not Direction.BOTH and not any(key[:count] if self._way is Direction.FORWARD else key[count:]):
            return ()
        return tuple([(tensor, number) for tensor, now in enumerate(key) if not now])

    def _step(self, key: Key) -> Changes:
        updates = step(self.rule, self.seen(key), self.directions, self.elementwise, self.strategy, self.conservative)
        if not updates:
            return ()
        last = len(key) - 1
        return tuple(
            [
                (tensor, self.numbers.number(self.after(new) if self.after is not None and tensor == last else new))
                for tensor, new in updates
            ]
        )

    def is_settled(self, key: Key, changes: Changes) -> bool:
        """Whether an op that had this key has nothing to do once its changes are made."""
        then = list(key)
        for tensor, number in changes:
            then[tensor] = number
        return not self[tuple(then)]


def _treats_alike(rule: ShardingRule) -> bool:
    mappings = rule.operands + rule.results
    return mappings.count(mappings[0]) == len(mappings) and all(len(dim) == 1 for dim in mappings[0])


def _opened(sharding: TensorSharding) -> TensorSharding | None:
    """A sharding with the axes of another, open everywhere; `None` where there are no axes."""
    if not sharding.used_axes:
        return None
    dims = tuple([DimSharding(extend_axes((), dim.axes), True) for dim in sharding.dims])
    return TensorSharding(sharding.mesh, dims)


class Worklist:
    """The ops of a program and the shardings of its values, as numbers.

    Attributes:
        state: For each value, the number of its sharding.
        tables: For each op, its step table in the present round, or `None` where nothing flows through it.
        due: For each op, whether it may have something to do.
        dead: For each op, whether nothing uses it and it has no effect.
        repeats: For each op, whether a value is twice among its operands and results.
        on_dead: Called with a dead op and the place of the sweep; answers the ops to look at again.
        on_change: Called with an op, its table, its key and what is about to change, where somebody keeps a record or
            chooses; answers what is to change instead.
    """

    def __init__(
        self,
        numbers: Numbers,
        state: list[int],
        tensors: Sequence[tuple[int, ...]],
        notify: Sequence[Sequence[int]],
        groups: dict[int, Sequence[int]],
    ) -> None:
        """Make a worklist.

        Arguments:
            numbers: The table of shardings.
            state: For each value, the number of its sharding.
            tensors: For each op, the values of its operands and results.
            notify: For each value, the ops to visit again when it changes, in order.
            groups: For each value that tells a sharding group of its changes, all values of the group.
        """
        count = len(tensors)
        self.numbers = numbers
        self.state = state
        self.tensors = tensors
        self.notify = notify
        self.groups = groups
        self.tables: list[StepTable | None] = [None] * count
        self.due = bytearray(count)
        self.dead = bytearray(count)
        self._keys = [itemgetter(*values) if len(values) > 1 else None for values in tensors]
        self.repeats = bytearray([len(set(values)) < len(values) for values in tensors])
        self._waiting: list[int] = []
        self._is_waiting = bytearray(count)
        self._changed: list[tuple[int, StepTable, Key, Changes]] = []
        self.on_dead: Callable[[int, int], list[int]] | None = None
        self.on_change: Callable[[int, StepTable, Key, Changes], Change] | None = None

    def sweep(self) -> None:
        """Visit what is due from first to last, and what that makes due before it."""
        state, tensors, notify, tables, keys = self.state, self.tensors, self.notify, self.tables, self._keys
        due, dead, waiting, is_waiting, groups = self.due, self.dead, self._waiting, self._is_waiting, self.groups
        find = due.find
        on_change = self.on_change
        self._mark_unsettled()
        changed = self._changed
        cursor = 0
        while True:
            if waiting:
                op = waiting.pop()
                is_waiting[op] = 0
            else:
                op = find(1, cursor)
                if op < 0:
                    break
                cursor = op + 1
                due[op] = 0
            if dead[op]:
                self._bury(op, cursor)
                continue
            table = tables[op]
            if table is None:
                continue
            key = keys[op](state)  # type: ignore[misc]
            changes = table[key]
            if not changes:
                continue
            if on_change is not None:
                op, table, key, changes = on_change(op, table, key, changes)
            changed.append((op, table, key, changes))
            values = tensors[op]
            for tensor, number in changes:
                value = values[tensor]
                state[value] = number
                for other in groups.get(value, (value,)):
                    state[other] = number
                    for user in notify[other]:
                        if user == op:
                            continue
                        if user >= cursor:
                            due[user] = 1
                        elif not is_waiting[user]:
                            is_waiting[user] = 1
                            waiting.append(user)

    def _mark_unsettled(self) -> None:
        """Make due what was not done with what it changed itself in the sweep before.

        Asked as late as this, most of these ops are due already, and no step has to be tried for them.
        """
        for op, table, key, changes in self._changed:
            if not self.due[op] and (self.repeats[op] or not table.is_settled(key, changes)):
                self.due[op] = 1
        self._changed.clear()

    def _bury(self, op: int, cursor: int) -> None:
        """Take a dead op out, and look again at what it used."""
        self.dead[op] = 0
        self.tables[op] = None
        assert self.on_dead is not None, "dead ops come with somebody to bury them"
        for other in self.on_dead(op, cursor):
            if other < cursor and not self._is_waiting[other]:
                self._is_waiting[other] = 1
                self._waiting.append(other)

    def mark(self, value: int) -> None:
        """Make due all that depends on a value (changed from outside)."""
        for op in self.notify[value]:
            self.due[op] = 1

    def set(self, value: int, number: int) -> None:
        """Change the sharding of a value, and of its group, from outside."""
        for other in self.groups.get(value, (value,)):
            self.state[other] = number
            self.mark(other)
