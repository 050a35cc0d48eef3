"""Bytes sent per device, against a count of what a ring really sends."""

from __future__ import annotations

import pytest

from shardwright.cost.collectives import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    reduce_scatter_bytes,
    sent_bytes,
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


@pytest.mark.parametrize(
    ("kind", "operand", "result", "sent"),
    [
        ("all_gather", 24, 96, 72),
        ("reduce_scatter", 96, 24, 72),
        ("all_reduce", 96, 96, 144),
        ("all_to_all", 96, 96, 72),
        ("collective_permute", 96, 96, 96),
        ("collective_broadcast", 96, 96, 96),
        ("collective_reduce", 96, 96, 96),
    ],
)
def test_what_a_collective_of_stablehlo_sends(kind: str, operand: float, result: float, sent: float) -> None:
    assert sent_bytes(kind, operand, result, 4) == sent
    assert sent_bytes(kind, operand, operand, 1) == 0
