"""What tasks take with others in place of some is what following all of them says."""

from __future__ import annotations

import random

import pytest

from shardwright.cost.overlap import Queue, Work, beats_seconds
from shardwright.optimize.course import Course
from shardwright.optimize.tasks import Beat, Task, Tasks
from tests.optimize.test_scheduling import random_tasks


def _other(tasks: list[Task], first: int, last: int, rng: random.Random) -> dict[int, Beat]:
    """Works in place of two tasks: what both read is sent in parts, beside what computes with these."""
    reads = tuple({*tasks[first].reads, *tasks[last].reads}.difference(tasks[first].makes))
    sent = Work(rng.choice([0.0, 0.5, 3.0]), rng.choice([Queue.LINKS, Queue.NETWORK]), reads, (-1,))
    computed = Work(rng.choice([0.1, 1.0, 4.0]), Queue.COMPUTE, (-1,), tasks[last].makes)
    return {first: (), last: (Work(1.0, Queue.COMPUTE, reads), sent, Work(0.5), computed)}


@pytest.mark.parametrize("seed", range(200))
def test_replacing_tasks_one_after_the_other_takes_what_following_them_says(seed: int) -> None:
    rng = random.Random(seed)
    tasks: list[Task] = []
    for part in range(4):
        found, _, _ = random_tasks(4 * seed + part)
        start = 100 * part
        tasks += [
            Task(
                tuple(
                    [
                        Work(
                            work.seconds,
                            work.queue,
                            tuple([value + start for value in work.reads]),
                            (work.makes[0] + start,),
                        )
                        for work in task.works
                    ]
                ),
                (),
                tuple([value + start for value in task.reads]),
                (task.makes[0] + start,),
            )
            for task in found
        ]
    now = Tasks(tasks, {}, ())
    course, beats = Course(now), list(now.beats)
    for _ in range(12):
        first, last = sorted(rng.sample(range(len(tasks)), 2))
        others = _other(tasks, first, last, rng)
        then = [others.get(place, beat) for place, beat in enumerate(beats)]
        assert course.seconds_with(others) == pytest.approx(beats_seconds(then), rel=1e-12)
        if rng.random() < 0.4:
            course.replace(others, beats_seconds(then))
            beats = then
