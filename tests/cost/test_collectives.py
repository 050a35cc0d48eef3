"""Bytes sent per device, against a count of what a ring really sends."""

from __future__ import annotations

import pytest

from shardwright.cost.collectives import (
    LAUNCH_BYTES,
    all_gather_bytes,
    all_reduce_bytes,
    all_slice_bytes,
    all_to_all_bytes,
    collective_permute_bytes,
    reduce_scatter_bytes,
    weighed,
)


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_a_ring_sends_a_chunk_in_each_round(devices: int) -> None:
    buffer = 240.0
    chunk, rounds = buffer / devices, devices - 1
    assert all_gather_bytes(buffer, devices) == pytest.approx(chunk * rounds)
    assert reduce_scatter_bytes(buffer, devices) == pytest.approx(chunk * rounds)
    assert all_reduce_bytes(buffer, devices) == pytest.approx(2 * chunk * rounds)
    assert all_to_all_bytes(buffer, devices) == pytest.approx(chunk * (devices - 1))


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    assert all_reduce_bytes(96, 4) == reduce_scatter_bytes(96, 4) + all_gather_bytes(96, 4)


def test_slicing_is_free_and_permuting_hands_all_over() -> None:
    assert (all_slice_bytes(), collective_permute_bytes(96)) == (0, 96)


def test_fewer_collectives_win_at_equal_bytes_only() -> None:
    assert weighed(10, 1) < weighed(10, 2) < weighed(11, 1)
    assert weighed(10, 0) + LAUNCH_BYTES == weighed(10, 1)
