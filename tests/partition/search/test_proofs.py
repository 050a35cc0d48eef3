"""What is proven of choices by integer programs, one step after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from shardwright.memo import Session
from shardwright.partition.search.chosen import Solution
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.reduced import Asked, Reduced
from tests.partition.search.programs import SCALED, begun

SEEDS = range(6)


def asked(reduced: Reduced, distances: Distances, in_full: Sequence[int] = ()) -> Asked:
    """With messages that know little."""
    reduced.bound = reduced.messages.least(distances, 1)
    return Asked(distances, in_full, np.inf, reduced.messages.of_ways())


class Proofs:
    """Asks for proofs that are counted, and come to a part of what the best takes."""

    def __init__(self, reduced: Reduced, monkeypatch: pytest.MonkeyPatch, part: float) -> None:
        self.made = list[tuple[int, int]]()
        proves = reduced.proves

        def counted(
            kept: Sequence[np.ndarray], distances: Distances, in_full: Sequence[int], limit: float
        ) -> Solution | None:
            before = reduced.bound
            self.made.append((sum(map(len, kept)), len(in_full)))
            found = proves(kept, distances, in_full, limit)
            assert found is not None
            reduced.bound = max(before, part * reduced.bound)
            return replace(found, bound=part * found.bound)

        monkeypatch.setattr(reduced, "proves", counted)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_step_proves_what_is_best(seed: int) -> None:
    with Session(hardware=SCALED):
        reduced, distances, found, best = begun(seed)
        proven = reduced.wholly(found, asked(reduced, distances))
    assert proven.seconds == pytest.approx(best.seconds, rel=1e-3)
    assert best.seconds * (1 - 1e-3) <= reduced.bound <= best.seconds * (1 + 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_small_programs_are_told_in_full_though_plain_ones_told_little(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with Session(hardware=SCALED):
        reduced, distances, found, best = begun(seed)
        these = asked(reduced, distances, in_full=[0])
        reduced.plain = 0.5 * reduced.messages.bound
        proofs = Proofs(reduced, monkeypatch, 1.0)
        proven = reduced.wholly(found, these)
        assert [full for _, full in proofs.made] == [1]
        assert proven.seconds >= best.seconds * (1 - 1e-3)
        monkeypatch.setattr("shardwright.partition.search.reduced._SMALL", 0.0)
        reduced.is_told_more = True
        reduced.wholly(found, these)
    assert len(proofs.made) == 1  # of large ones few ways of each node are told


@pytest.mark.parametrize(("part", "times"), [(0.0, 1), (1.0, 2)])
def test_what_told_nothing_new_in_full_is_not_told_again(
    monkeypatch: pytest.MonkeyPatch, part: float, times: int
) -> None:
    with Session(hardware=SCALED):
        reduced, distances, found, _ = begun(0)
        these = asked(reduced, distances, in_full=[0])
        reduced.bound *= 0.5  # as if a proof told more
        proofs = Proofs(reduced, monkeypatch, part)
        first = reduced.wholly(found, these)
        assert reduced.is_told_more == (part == 1.0)
        reduced.bound *= 0.5
        second = reduced.wholly(first, these)
    assert len(proofs.made) == times
    assert second.seconds <= first.seconds <= found.seconds


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_told_plainly_twice_or_where_all_is_plain(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    with Session(hardware=SCALED):
        reduced, distances, found, best = begun(seed)
        proofs = Proofs(reduced, monkeypatch, 1.0)
        assert reduced.plainly(found, asked(reduced, distances)) is found
        these = asked(reduced, distances, in_full=[0])
        told = reduced.plainly(found, these)
        assert reduced.plain is not None
        assert reduced.plain <= best.seconds * (1 + 1e-6)
        assert reduced.plainly(told, these) is told
    assert [full for _, full in proofs.made] == [0]
    assert told.seconds <= found.seconds
