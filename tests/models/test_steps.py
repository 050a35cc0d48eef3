"""Training steps verify: no false alarm. Broken ones do not: every one that is wrong beyond noise is caught."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.models.steps.all import SHARDINGS, STEPS
from tests.models.steps.running import verify_step

FEW = ("adam_first_step", "batch_norm", "bfloat16_inside", "empty_segments")
"""Noise made into steps, a gradient that is zero, narrow types, and infinities beside NaNs."""

MUTANTS = 19
"""Broken forms of each step in the long mode: more than a thousand in all."""


def test_there_are_enough_steps() -> None:
    assert len(STEPS) >= 40
    assert len(SHARDINGS) == 3


@pytest.mark.parametrize("name", FEW)
def test_sound_steps_pass_and_broken_ones_do_not(name: str) -> None:
    outcome = verify_step(name, mutants=6)
    assert not outcome.alarms
    assert not outcome.missed
    assert outcome.counts["wrong, refused"] >= 2


@pytest.mark.long
def test_every_step_passes_under_every_sharding_and_a_thousand_broken_ones_are_caught() -> None:
    alarms: dict[str, str] = {}
    missed: list[str] = []
    counts: Counter[str] = Counter()
    for name in STEPS:
        outcome = verify_step(name, MUTANTS)
        alarms |= outcome.alarms
        missed += outcome.missed
        counts += outcome.counts
    print(f"{len(STEPS)} steps, {len(SHARDINGS)} shardings each; broken programs: {dict(counts)}")
    assert not alarms
    assert not missed
    assert counts.total() >= 1000
    assert counts["wrong, refused"] > counts["harmless, passed"] / 2
