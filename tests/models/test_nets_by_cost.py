"""What models take that are propagated by cost, beside how they are by default, by the price of what is written."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import exp, fsum, log

import pytest

from shardwright.cost.hardware import TPU_V5P, Hardware
from shardwright.memo import Session
from tests.models.nets.all import NETS
from tests.models.test_nets_beside_xla import SCALED
from tests.partition.modelled import modelled_seconds

OTHERWISE = ("gaussian_process", "sequence_parallel_layer", "shortest_paths")
"""Models that are sharded otherwise by cost, and take less time."""

FEW = sorted({*OTHERWISE, *random.Random(12).sample(sorted(NETS), 20)})


@pytest.mark.parametrize("hardware", [SCALED, TPU_V5P], ids=["starts a thousand times less", "tpu_v5p"])
def test_models_take_no_more_by_cost(hardware: Hardware, record_property: Callable[[str, object], None]) -> None:
    ratios = _ratios(FEW, hardware)
    _tell(ratios, record_property)
    assert all(ratio <= 1 + 1e-9 for ratio in ratios.values()), ratios
    assert all((ratio < 1) == (name in OTHERWISE) for name, ratio in ratios.items() if hardware is SCALED)


@pytest.mark.long
@pytest.mark.parametrize("hardware", [SCALED, TPU_V5P], ids=["starts a thousand times less", "tpu_v5p"])
def test_all_models_by_cost(hardware: Hardware, record_property: Callable[[str, object], None]) -> None:
    ratios = _ratios(sorted(NETS), hardware)
    _tell(ratios, record_property)
    assert _mean(ratios) <= 1


def _ratios(names: Sequence[str], hardware: Hardware) -> dict[str, float]:
    """The modelled time of each, by cost, as a multiple of what it is by default."""
    ratios: dict[str, float] = {}
    with Session(hardware=hardware):
        for name in names:
            net = NETS[name]
            program = net.program()
            usual, other = (
                modelled_seconds(program.shard(net.mesh, args=net.args, strategy=strategy))
                for strategy in ("user-priority", "cost")
            )
            ratios[name] = other / usual if usual else 1.0
    return ratios


def _mean(ratios: dict[str, float]) -> float:
    return exp(fsum(map(log, ratios.values())) / len(ratios))


def _tell(ratios: dict[str, float], record_property: Callable[[str, object], None]) -> None:
    unlike = [f"{name} {ratio:.3f}" for name, ratio in ratios.items() if ratio != 1]
    record_property(
        "summary",
        f"by cost: {len(ratios)} models take {_mean(ratios):.4f} times what they do by default, by the price; "
        f"{len(ratios) - len(unlike)} the same, {', '.join(unlike)}",
    )
