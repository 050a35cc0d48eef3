"""Rows of numbers beside tuples of them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from shardwright.partition.search.rows import Rows, in_order, starts_of


@pytest.mark.parametrize("most", [1, 3, 1 << 20, 1 << 40, 1 << 61])
def test_rows_are_alike_that_are_equal(most: int) -> None:
    rng = Random(most)
    for _ in range(20):
        few = [[rng.randrange(most) for _ in range(rng.randrange(6))] for _ in range(5)]
        rows = [rng.choice(few) for _ in range(rng.randrange(40))]
        first = [rng.randrange(3) for _ in rows]
        lengths = np.array([len(row) for row in rows], dtype=np.intp)
        numbers = np.array([number for row in rows for number in row], dtype=np.intp)
        alike = Rows(lengths, starts_of(lengths)).alike(np.array(first, dtype=np.intp), numbers).tolist()
        equal = [(one, *row) for one, row in zip(first, rows, strict=True)]
        assert len(set(zip(alike, equal, strict=True))) == len(set(alike)) == len(set(equal))
        assert sorted(set(alike)) == list(range(len(set(alike))))


def test_rows_need_not_be_all_there_are_nor_in_order() -> None:
    rows = Rows(np.array([2, 2, 1]), np.array([3, 0, 1]))
    assert rows.alike(np.zeros(3, dtype=np.intp), np.array([7, 8, 9, 7, 8])).tolist() == [1, 1, 0]


def test_numbers_are_told_in_the_order_in_which_they_appear() -> None:
    ranks, first = in_order(np.array([5, 2, 5, 9, 2]))
    assert ranks.tolist() == [0, 1, 0, 2, 1]
    assert first.tolist() == [0, 1, 3]
    assert [one.size for one in in_order(np.array([], dtype=np.intp))] == [0, 0]
