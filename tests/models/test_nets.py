"""Models of every kind, sharded as their users would: each computes the same on its devices as unsharded."""

from __future__ import annotations

import random

import pytest

from shardwright.runtime.execute import WorkerDied
from tests.models.nets.all import NETS

XLA_DIES = {"adversaries", "convolutional_autoencoder"}
"""Models at whose per-device program XLA ends the process that compiles it for CPUs, since work is repeated less.

Its simplifier exchanges the operands of a convolution, the gradient of a kernel by images that are dilated, in one of
its two dimensions only: "Window dimensions do not match RHS shape". One such convolution on one device does it too.
"""

FEW = random.Random(11).sample(sorted(NETS), 6)


def _check(name: str) -> None:
    NETS[name].plan().partition().verify().require()


@pytest.mark.parametrize("name", FEW)
def test_some_models_compute_the_same(name: str) -> None:
    _check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NETS if name not in FEW and name not in XLA_DIES])
def test_every_model_computes_the_same(name: str) -> None:
    _check(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(XLA_DIES))
def test_what_ends_xlas_compiler_is_an_error_here(name: str) -> None:
    with pytest.raises(WorkerDied, match="it is the per-device program"):
        _check(name)


def test_there_are_enough_models() -> None:
    assert len(NETS) >= 60
    assert len({net.function.__module__ for net in NETS.values()}) >= 10
    assert {net.mesh.size for net in NETS.values()} == {6, 8}
