"""Random JAX programs of ops of every family, partitioned and run, against themselves on one device.

`SHARDWRIGHT_FUZZ=N` runs N programs in the long mode, `SHARDWRIGHT_SEED=N` other ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.graphs.programs import SHORT, Program, program
from tests.graphs.run import Outcome, report, run
from tests.graphs.shrink import shrunk
from tests.graphs.steps import names

COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "20000"))
SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))


def check(first: int, count: int) -> Outcome:
    """Programs by number, each of them right."""
    outcome = run(range(first, first + count))
    alike = {verdict.kind: verdict for verdict in reversed(outcome.failures)}
    assert not alike, "\n\n".join(report(verdict) for verdict in alike.values())
    return outcome


def test_programs_are_what_they_are_on_one_device(record_property: Callable[[str, object], None]) -> None:
    outcome = check(SEED, SHORT)
    assert len(outcome.families) >= 40
    record_property("summary", f"graphs: {outcome.summary()}")


@pytest.mark.long
def test_programs_at_length(record_property: Callable[[str, object], None]) -> None:
    record_property("summary", f"graphs: {check(SEED + SHORT, COUNT).summary()}")


def test_a_number_says_the_whole_program() -> None:
    assert [program(number).lowered() for number in range(5)] == [program(number).lowered() for number in range(5)]


def test_programs_shrink_to_what_is_wrong_with_them() -> None:
    def has_sort(one: Program) -> bool:
        return "sort" in one.families()

    number = next(number for number in range(20) if has_sort(program(number)))
    small = shrunk(program(number), has_sort)
    assert small.families() == {"sort": 1}
    assert len(names(small.main.returns)) == 1
    assert "stablehlo.sort" in small.lowered()
