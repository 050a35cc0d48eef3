"""Programs of the sizes that fill devices: what they send is what their strategies are known to; small they are run."""

from __future__ import annotations

import math

import pytest

import shardwright as sw
from shardwright.program import Spmd
from tests.models.large.all import LARGE
from tests.models.large.transformer import LLAMA

_RUN = (
    *("decode.split_cache", "experts.data", "llama.fsdp_and_tensor", "llama_scan.fsdp", "resnet.space"),
    *("generate.data_and_tensor", "graphs.data", "recommender.columns", "recurrent.tensor"),
    *("simulation.both", "solver.both", "spectral.space"),
)


@pytest.mark.parametrize("name", _RUN)
def test_small_ones_compute_the_same(name: str) -> None:
    LARGE[name](True).partition(effort="default").verify().require()


@pytest.mark.long
@pytest.mark.parametrize("effort", ["fast", "lean", "best"])
@pytest.mark.parametrize("name", sorted(LARGE))
def test_all_small_ones_compute_the_same(name: str, effort: str) -> None:
    LARGE[name](True).partition(effort=effort, optimize="all").verify().require()


def _partitioned(name: str, effort: str) -> Spmd:
    with sw.Session(hardware=sw.hardware("h100")):
        return LARGE[name](False).partition(effort=effort)


def _layer_elements() -> int:
    """Of the weights of a layer."""
    wide, shared = LLAMA.width, LLAMA.width // LLAMA.heads * LLAMA.groups
    return 2 * wide * wide + 2 * wide * shared + 3 * wide * LLAMA.hidden


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_weights_in_parts_are_gathered_twice_and_their_gradients_scattered_once(effort: str) -> None:
    """FSDP: 7/8 of each weight of a layer, in bf16, gathered, gathered again to recompute, scattered as a gradient; of
    the rows of tokens and of logits twice.
    """
    elements = 3 * LLAMA.layers * _layer_elements() + 4 * LLAMA.vocabulary * LLAMA.width
    assert _partitioned("llama.fsdp", effort).outcome.bytes_sent <= 2 * 7 / 8 * elements * 1.001


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_gradients_of_whole_weights_are_reduced_once(effort: str) -> None:
    """Data parallelism: 2 · 7/8 of each weight, in bf16."""
    elements = LLAMA.layers * _layer_elements() + 2 * LLAMA.vocabulary * LLAMA.width
    assert _partitioned("llama.data", effort).outcome.bytes_sent <= 2 * 7 / 8 * 2 * elements * 1.001


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_megatron_sums_activations_no_more_than_six_times_a_layer(effort: str) -> None:
    """Forward, recomputed and backward: an attention and an MLP each; tokens, logits and their gradients beside."""
    activations = 2 * math.prod((LLAMA.batch, LLAMA.length, LLAMA.width))
    sums = 2 * 7 / 8 * activations
    sent = _partitioned("llama.tensor", effort).outcome.bytes_sent
    assert sent <= sums * (6 * LLAMA.layers + 6)
