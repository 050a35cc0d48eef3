"""Models of every kind, sharded as their users would: each computes the same on its devices as unsharded."""

from __future__ import annotations

import random

import pytest

from tests.models.nets.all import NETS

FEW = random.Random(11).sample(sorted(NETS), 6)


def _check(name: str) -> None:
    NETS[name].plan().partition().verify().require()


@pytest.mark.parametrize("name", FEW)
def test_some_models_compute_the_same(name: str) -> None:
    _check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NETS if name not in FEW])
def test_every_model_computes_the_same(name: str) -> None:
    _check(name)


def test_there_are_enough_models() -> None:
    assert len(NETS) >= 60
    assert len({net.function.__module__ for net in NETS.values()}) >= 10
    assert {net.mesh.size for net in NETS.values()} == {6, 8}
