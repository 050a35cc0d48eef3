"""Ops that are decided on as one like them, on other values: as if each were decided on by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from shardwright.memo import Session
from shardwright.partition import decide as deciding
from shardwright.partition.alike import Alike, is_of_any, needs_more
from shardwright.partition.decide import decide
from shardwright.program import Plan
from tests.models.nets.all import NETS
from tests.partition.search.programs import SCALED, ready, repeated_program

NAMES = ("beam_search", "decoding_with_cache", "diffusion_training", "gated_recurrent_unit")


def _compare(make: Callable[[], Plan], monkeypatch: pytest.MonkeyPatch) -> int:
    """Decide with each op for which versions are made by itself, and with those alike; how many are so."""
    alike, on, known = [0], Alike.on, dict[str, Any]()

    def counted(*arguments: Any) -> Any:
        alike[0] += 1
        return on(*arguments)

    with Session(hardware=SCALED):
        graph = ready(make())
        with monkeypatch.context() as patched:
            patched.setattr(Alike, "on", counted)
            known["alike"] = decide(graph)
        with monkeypatch.context() as patched:
            patched.setattr(deciding, "is_of_any", lambda *given: is_of_any(*given) and not needs_more(given[2]))
            known["each"] = decide(graph)
    assert known["alike"] == known["each"]
    return alike[0]


def test_blocks_that_repeat_are_decided_as_if_each_op_were_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [_compare(partial(repeated_program, seed), monkeypatch) for seed in range(24)]
    assert sum(count > 0 for count in counts) > 4


@pytest.mark.parametrize("name", NAMES)
def test_models_are_decided_as_if_each_op_were_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(NETS[name].plan, monkeypatch)
