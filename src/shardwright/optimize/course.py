"""How the time of tasks goes in their order: what a change of some of them saves is told from where they stand on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from shardwright.cost.overlap import Queue
from shardwright.optimize.tasks import Beat, Tasks

__all__ = ["Course"]

_LEAST = 1e-13
"""What part of the whole two times may differ by that are the same but for rounding."""


class _Sent(NamedTuple):
    """What was started in a queue last: when it ends, what it makes, and what was started before it."""

    end: float
    makes: tuple[int, ...]
    before: _Sent | None


class _State(NamedTuple):
    """Where a device is.

    Attributes:
        now: When it goes on.
        sent: What was started last in each queue.
    """

    now: float = 0.0
    sent: Mapping[Queue, _Sent] = {}

    @property
    def end(self) -> float:
        """When all that was begun has ended."""
        return max([self.now, *[one.end for one in self.sent.values()]])

    def is_earlier(self, other: _State, rounding: float) -> bool:
        """Whether all that is to come is as in another state, but earlier, or later."""
        return all(
            _are_alike(self.sent.get(queue), self.now, other.sent.get(queue), other.now, rounding)
            for queue in {**self.sent, **other.sent}
        )


def _are_alike(one: _Sent | None, now: float, other: _Sent | None, then: float, rounding: float) -> bool:
    """Whether as much of the same has been started in a queue and not ended, some time ago each."""
    while one is not None and one.end > now + rounding:
        if other is None or one.makes != other.makes or abs(one.end - now - (other.end - then)) > rounding:
            return False
        one, other = one.before, other.before
    return other is None or other.end <= then + rounding


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
        (now, sent), ready, is_new = self._state(first), dict(self._ready), True
        for place in others:
            ready.update(self._over(place))
        for place in range(first, len(self._beats)):
            if is_new and place > last:
                then = self._state(place)
                if _State(now, sent).is_earlier(then, rounding):
                    return self.seconds - (then.now - now)
            beat = others[place] if place in others else self._beats[place]
            if isinstance(beat, float):  # most are, and leave what is sent as it is
                now += beat
                is_new = place == last
            else:
                now, sent = _gone_on(beat, _State(now, sent), ready)
                is_new = True
        return _State(now, sent).end

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
    now, sent = state
    if isinstance(beat, float):
        return _State(now + beat, sent)
    for seconds, queue, reads, makes, _ in beat:
        for value in reads:
            if value in ready and ready[value] > now:
                now = ready[value]
        if queue is Queue.COMPUTE:
            now += seconds
        else:
            before = sent.get(queue)
            end = (now if before is None or before.end < now else before.end) + seconds
            sent = {**sent, queue: _Sent(end, makes, before)}
            for value in makes:
                ready[value] = end
    return _State(now, sent)
