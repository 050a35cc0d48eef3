"""Programs for many nodes: small they compute the same, large they send little between nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import shardwright as sw
from shardwright.assess.times import times
from tests.models.large.clusters import CLUSTERS

H100 = sw.hardware("h100")
SMALL_NODES = replace(H100, node_devices=2)
_RUN = ("llama.replicas", "llama.context", "decode.shared_heads", "experts.fsdp")


@pytest.mark.parametrize("name", _RUN)
def test_what_is_planned_for_nodes_computes_the_same(name: str) -> None:
    with sw.Session(hardware=SMALL_NODES):
        CLUSTERS[name](True).partition(effort="default", optimize="all").verify().require()


@pytest.mark.long
@pytest.mark.parametrize("effort", ["fast", "lean", "default"])
@pytest.mark.parametrize("name", sorted(CLUSTERS))
def test_all_small_ones_compute_the_same(name: str, effort: str) -> None:
    with sw.Session(hardware=SMALL_NODES):
        CLUSTERS[name](True).partition(effort=effort, optimize="all").verify().require()


@pytest.mark.parametrize("name", ["llama.replicas", "experts.fsdp", "decode.shared_heads"])
def test_who_knows_of_nodes_waits_less_for_the_network(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """Beside what is decided as if one kind of links joined all devices."""
    knowing, not_knowing = (network_seconds(name, knows=knows) for knows in (True, False))
    record_property(
        "summary", f"{name}: {knowing * 1e3:.2f} ms over the network, {not_knowing * 1e3:.2f} not knowing it"
    )
    assert knowing <= not_knowing * (1 + 1e-9)


def network_seconds(name: str, *, knows: bool) -> float:
    """What a program sends over the network, decided by who knows of it or not."""
    with sw.Session(hardware=H100 if knows else replace(H100, network_bytes_per_second=None)):
        made = CLUSTERS[name](False).partition(effort="fast")
    with sw.Session(hardware=H100):
        return times(made.local).network


def test_weights_in_parts_enter_each_node_once_by_each_device() -> None:
    """FSDP over 64 devices: of what each sends, (8 − 1)/(64 − 1) goes between the eight nodes: see `cost.nodes`."""
    with sw.Session(hardware=H100):
        made = CLUSTERS["llama.fsdp"](False).partition(effort="fast")
        took = times(made.local)
    sent, starts = made.outcome.bytes_sent, made.outcome.collectives
    far = sent / 9
    assert took.links == 0.0
    assert took.network == pytest.approx((sent - far) / 4.5e11 + far / 5e10 + starts * 6.6e-6, rel=0.05)


@pytest.mark.parametrize("name", ["experts.tensor", "llama.tensor_of_two_nodes"])
def test_what_is_said_to_go_over_the_network_is_what_a_device_sends_there(name: str) -> None:
    """By axes of the program as it is decided, and by the groups of the collectives of a device."""
    with sw.Session(hardware=H100):
        made = CLUSTERS[name](False).partition(effort="fast")
        said, sent = times(made.explicit), times(made.local)
    assert said.network == pytest.approx(sent.network, rel=1e-2)
    assert said.links == pytest.approx(sent.links, rel=1e-2)
    assert said.network > 0
