"""All models, as they are split in benchmarks: small ones, steps of training, and those of real size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shardwright.program import Plan
from tests.models.large.all import LARGE
from tests.models.large.clusters import CLUSTERS
from tests.models.nets.all import NETS
from tests.models.steps.all import SHARDINGS, STEPS, plan

__all__ = ["models"]


def models(evenly: bool = False) -> dict[str, Callable[[], Plan]]:
    """What makes each of them with its shardings, by name.

    Arguments:
        evenly: Whether of the small ones those shardings are left out that do not divide.
    """
    every: dict[str, Callable[[], Plan]] = {
        f"nets.{name}": partial(net.plan, evenly=evenly) for name, net in NETS.items()
    }
    every |= {f"steps.{name}.{kind}": partial(plan, name, kind) for name in STEPS for kind in SHARDINGS}
    every |= {f"large.{name}": partial(make, False) for name, make in LARGE.items()}
    return every | {f"clusters.{name}": partial(make, False) for name, make in CLUSTERS.items()}
