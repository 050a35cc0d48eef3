"""Propagation gone through again with other shardings of some values: only what sees a difference is done again.

The first way through a program is kept, step by step. A step is the visit of an op at its turn, with the visits of ops
before it that this causes, as `Worklist.sweep` makes them; or a result and what is returned for it made alike, before
and after each sweep. What a step does follows from the shardings of the values that it looks at, and whether an op is
due from the steps that make it so. So another way through differs from the first in the steps that look at a value
that lies otherwise by then, or that are due in one way and not in the other: these are done again, in order, each
compared with what it was, and all others did what they did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from shardwright.propagation.engine.worklist import StepTable, Worklist

__all__ = ["Replay", "Round"]


class Round(NamedTuple):
    """What a sweep goes by.

    Attributes:
        tables: The step table of each op.
        due: The ops that are due whatever was done before.
        returned: What is made alike before the sweep and after it: the number of a result, a value, a table.
    """

    tables: list[StepTable | None]
    due: list[int]
    returned: Sequence[tuple[int, int, StepTable]]


class _Step(NamedTuple):
    """What was done at a time.

    Attributes:
        seen: The values that were looked at.
        given: The values that got another sharding, with its number at the end of the step.
        wakes: The times of steps that are due for that.
    """

    seen: Collection[int] = ()
    given: Mapping[int, int] = {}
    wakes: Collection[int] = ()


_NOTHING = _Step()


class Replay:
    """Propagates a program with other shardings of some values, without groups, data-flow edges, dead ops, priorities.

    Results stand behind the values, as values of their own. Times are numbers: the stages are, of each round, what is
    done before a sweep, the sweep, and what is done after it; within a stage stand results by number, or ops.

    Attributes:
        start: The number of the sharding of each value, and then of each result, to begin with.
        end: The same, as they come out of the first way.
        steps: What was done on the first way, by time.
        fixed: The times of the steps that are due whatever was done before.
        wakers: How many steps make the one at a time due.
        looks: For each value, the times of the steps that look at it.
        changes: For each value, when it got another sharding, and which.
    """

    def __init__(self, worklist: Worklist, results: Sequence[int], rounds: Sequence[Round]) -> None:
        """Go through a program for the first time.

        Arguments:
            worklist: Its ops, and the shardings of its values to begin with; it is left as it is.
            results: The numbers of the shardings of its results to begin with.
            rounds: What its sweeps go by.
        """
        self._tensors, self._notify, self._repeats = worklist.tensors, worklist.notify, worklist.repeats
        self._rounds = rounds
        self.start = [*worklist.state, *results]
        self._values = len(worklist.state)
        self._width = max(len(self._tensors), *[len(one.returned) for one in rounds]) + 1
        self.fixed = frozenset(self._fixed_times())
        self.steps: dict[int, _Step] = {}
        self.looks: dict[int, list[int]] = {}
        self.changes: list[tuple[list[int], list[int]] | None] = [None] * len(self.start)
        self.wakers: dict[int, int] = {}
        self._visits: dict[int, tuple[StepTable | None, tuple[int, ...]]] = {}  # of times, what is visited first
        self.end = self._first()

    def _fixed_times(self) -> list[int]:
        """The times of the steps that are done whatever was done before."""
        times: list[int] = []
        for number, one in enumerate(self._rounds):
            before, sweep, after = (self._width * (3 * number + stage) for stage in range(3))
            times += [sweep + op for op in one.due]
            times += [stage + place for stage in (before, after) for place in range(len(one.returned))]
        return times

    def _first(self) -> list[int]:
        state, todo, last = list(self.start), sorted(self.fixed), -1
        while todo:
            time = heappop(todo)
            if time == last:
                continue
            last = time
            step = self.steps[time] = self.step(time, state.__getitem__)
            for value in step.seen:
                self.looks.setdefault(value, []).append(time)
            for value, number in step.given.items():
                state[value] = number
                changes = self.changes[value] = self.changes[value] or ([], [])
                changes[0].append(time)
                changes[1].append(number)
            for other in step.wakes:
                self.wakers[other] = self.wakers.get(other, 0) + 1
                heappush(todo, other)
        return state

    def again(self, others: Mapping[int, int]) -> dict[int, int]:
        """What differs from `end` where some values begin with other shardings.

        Arguments:
            others: Values, with the numbers of their shardings.
        """
        return _Again(self, others).run()

    # What the first way was

    def before(self, value: int, time: int) -> int:
        """How a value lay in front of a step."""
        changes = self.changes[value]
        if changes is None:
            return self.start[value]
        times, numbers = changes
        place = bisect_left(times, time)
        return numbers[place - 1] if place else self.start[value]

    # Steps

    def is_idle(self, time: int, lying: Callable[[int], int]) -> bool:
        """Whether what is visited at a time is an op that does nothing: so it is nearly always."""
        visit = self._visits.get(time)
        if visit is None:
            stage, place = divmod(time, self._width)
            table = self._rounds[stage // 3].tables[place] if stage % 3 == 1 else None
            visit = self._visits[time] = (table, self._tensors[place] if table is not None else ())
        table, values = visit
        return table is not None and not table[tuple(map(lying, values))]

    def step(self, time: int, lying: Callable[[int], int]) -> _Step:
        """Do what is due at a time, where values lie so."""
        stage, place = divmod(time, self._width)
        number, kind = divmod(stage, 3)
        if kind == 1:
            return self._visited(number, place, lying)
        return self._returned(number, number + kind // 2, place, lying)

    def _sweep(self, number: int) -> int:
        """The time of the first op in a sweep; below 0 where there is none any more."""
        return self._width * (3 * number + 1) if number < len(self._rounds) else -1

    def _returned(self, number: int, woken: int, place: int, lying: Callable[[int], int]) -> _Step:
        """Make a result and what is returned for it alike."""
        index, value, table = self._rounds[number].returned[place]
        result = self._values + index
        changes = table[lying(value), lying(result)]
        if not changes:
            return _Step((value, result))
        given = {(result if tensor else value): number for tensor, number in changes}
        sweep = self._sweep(woken)
        wakes = {sweep + op for op in self._notify[value]} if value in given and sweep >= 0 else ()
        return _Step((value, result), given, wakes)

    def _visited(self, number: int, place: int, lying: Callable[[int], int]) -> _Step:
        """Visit an op, and those before it that are to be visited for that: see `Worklist.sweep`."""
        tables, tensors, notify = self._rounds[number].tables, self._tensors, self._notify
        now, later = self._sweep(number), self._sweep(number + 1)
        seen, given, wakes = set[int](), dict[int, int](), set[int]()
        waiting, are_waiting = [place], {place}
        while waiting:
            op = waiting.pop()
            are_waiting.discard(op)
            table = tables[op]
            if table is None:
                continue
            values = tensors[op]
            seen.update(values)
            key = tuple([given[value] if value in given else lying(value) for value in values])
            changes = table[key]
            if not changes:
                continue
            if later >= 0 and (self._repeats[op] or not table.is_settled(key, changes)):
                wakes.add(later + op)
            for tensor, sharding in changes:
                value = values[tensor]
                given[value] = sharding
                for user in notify[value]:
                    if user == op:
                        continue
                    if user > place:
                        wakes.add(now + user)
                    elif user not in are_waiting:
                        are_waiting.add(user)
                        waiting.append(user)
        return _Step(seen, given, wakes)


class _Again:
    """One more way through a program."""

    def __init__(self, first: Replay, others: Mapping[int, int]) -> None:
        self.first = first
        self.differing: dict[int, int] = {}
        self.gained = set[int]()
        self.lost: dict[int, int] = {}
        self.todo: list[int] = []
        self.listed = set[int]()
        for value, number in others.items():
            if number != first.start[value]:
                self._differs(value, number, -1)

    def run(self) -> dict[int, int]:
        """Do again what is to be, in order; the values that lie otherwise at the end."""
        first, differing, todo = self.first, self.differing, self.todo
        steps, start, changes = first.steps, first.start, first.changes
        time = 0

        def lying(value: int) -> int:
            if value in differing:
                return differing[value]
            return start[value] if changes[value] is None else first.before(value, time)

        while todo:
            time = heappop(todo)
            then = steps.get(time, _NOTHING)
            if self._is_due(time):
                if then is not _NOTHING and differing.keys().isdisjoint(then.seen):
                    continue
                now = _NOTHING if first.is_idle(time, lying) else first.step(time, lying)
            elif then is _NOTHING:
                continue
            else:
                now = _NOTHING
            if now.given or then.given:
                self._compare(time, now.given, then.given, lying)
            if now.wakes or then.wakes:
                self._wake(now.wakes, then.wakes)
        return differing

    def _is_due(self, time: int) -> bool:
        first = self.first
        if time in self.gained:
            return True
        return time in first.steps and (time in first.fixed or first.wakers[time] > self.lost.get(time, 0))

    def _compare(self, time: int, now: Mapping[int, int], then: Mapping[int, int], lying: Callable[[int], int]) -> None:
        """Know which values differ behind a step from what they were behind it."""
        for value in {**then, **now}:
            here = now[value] if value in now else lying(value)
            there = then[value] if value in then else self.first.before(value, time)
            if here == there:
                self.differing.pop(value, None)
            else:
                self._differs(value, here, time)

    def _differs(self, value: int, number: int, time: int) -> None:
        """Have a value lie otherwise behind a time: who looks at it later is to look again."""
        if value not in self.differing:
            times = self.first.looks.get(value, ())
            self._list(times[bisect_right(times, time) :])
        self.differing[value] = number

    def _wake(self, now: Collection[int], then: Collection[int]) -> None:
        """Have other steps be due for a step."""
        lost = [time for time in then if time not in now]
        for time in lost:
            self.lost[time] = self.lost.get(time, 0) + 1
        gained = [time for time in now if time not in then]
        self.gained.update(gained)
        self._list(lost + gained)

    def _list(self, times: Collection[int]) -> None:
        for time in times:
            if time not in self.listed:
                self.listed.add(time)
                heappush(self.todo, time)
