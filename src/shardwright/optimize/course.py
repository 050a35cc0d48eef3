"""How the time of tasks goes in their order: what a change of some of them saves is told from where they stand on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shardwright.cost.overlap import Queue
from shardwright.optimize.tasks import Beat, Tasks

__all__ = ["Course"]

_LEAST = 1e-13
"""What part of the whole two times may differ by that are the same but for rounding."""


class _State(NamedTuple):
    """Where a device is.

    Attributes:
        now: When it goes on.
        free: When each queue is free.
        sent: Some of what was started, all that has not ended by then among it: when each ends, and what it makes.
    """

    now: float = 0.0
    free: Mapping[Queue, float] = {}
    sent: tuple[tuple[float, tuple[int, ...]], ...] = ()

    @property
    def end(self) -> float:
        """When all that was begun has ended."""
        return max([self.now, *self.free.values()])

    def is_earlier(self, other: _State, rounding: float) -> bool:
        """Whether all that is to come is as in another state, but earlier, or later."""
        now, then = self.now, other.now
        for queue in {**self.free, **other.free}:
            left, behind = self.free.get(queue, 0.0) - now, other.free.get(queue, 0.0) - then
            if abs(max(left, 0.0) - max(behind, 0.0)) > rounding:
                return False
        mine, others = ([one for one in state.sent if one[0] > state.now + rounding] for state in (self, other))
        return len(mine) == len(others) and all(
            values == same and abs(end - now - (ends - then)) <= rounding
            for (end, values), (ends, same) in zip(mine, others, strict=True)
        )


class Course:
    """Tasks in their order, and what they would take with others in place of some.

    The course is known as far as it has been asked for. With others in place of some it is followed until all is again
    as without them, but earlier: that costs as much as lies between, however long the block is.

    Attributes:
        seconds: What the tasks take, as `cost.overlap` says but for rounding.
    """

    def __init__(self, tasks: Tasks) -> None:
        """Follow tasks as they stand."""
        self.seconds = tasks.seconds
        self._beats = list(tasks.beats)
        self._states = [_State()]
        self._ready: dict[int, float] = {}

    def seconds_with(self, others: Mapping[int, Beat]) -> float:
        """The seconds that tasks take with others in place of some, by number."""
        first, last, rounding = min(others), max(others), _LEAST * self.seconds
        (now, free, sent), ready, is_new = self._state(first), dict(self._ready), True
        for place in others:
            ready.update(self._over(place))
        for place in range(first, len(self._beats)):
            if is_new and place > last:
                then = self._state(place)
                if _State(now, free, sent).is_earlier(then, rounding):
                    return self.seconds - (then.now - now)
            beat = others[place] if place in others else self._beats[place]
            if isinstance(beat, float):  # most are, and leave what is sent as it is
                now += beat
                is_new = place == last
            else:
                now, free, sent = _gone_on(beat, _State(now, free, sent), ready)
                is_new = True
        return _State(now, free, sent).end

    def replace(self, others: Mapping[int, Beat], seconds: float) -> None:
        """Let others stand in place of some, with which the tasks take so long."""
        for place, beat in others.items():
            self._ready.update(self._over(place))
            self._beats[place] = beat
        del self._states[min(others) + 1 :]
        self.seconds = seconds

    def _over(self, place: int) -> dict[int, float]:
        """The values that nobody waits for if others make them than a task."""
        beat = self._beats[place]
        return {} if isinstance(beat, float) else {value: 0.0 for work in beat for value in work.makes}

    def _state(self, place: int) -> _State:
        """Where the device is before a task."""
        for number in range(len(self._states) - 1, place):
            self._states.append(_gone_on(self._beats[number], self._states[number], self._ready))
        return self._states[place]


def _gone_on(beat: Beat, state: _State, ready: dict[int, float]) -> _State:
    """Where a device is behind a task; what is sent is ready at some time then."""
    now, free, sent = state
    if isinstance(beat, float):
        return _State(now + beat, free, sent)
    for seconds, queue, reads, makes in beat:
        for value in reads:
            now = max(now, ready.get(value, 0.0))
        if queue is Queue.COMPUTE:
            now += seconds
        else:
            end = max(now, free.get(queue, 0.0)) + seconds
            free = {**free, queue: end}
            sent = (*[one for one in sent if one[0] > now], (end, makes))
            for value in makes:
                ready[value] = end
    return _State(now, free, sent)
