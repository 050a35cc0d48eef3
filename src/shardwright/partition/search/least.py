"""How long it takes at least to bring a value from one layout to another: first by bounds, by plans where it matters.

A bound takes no plan. Of a tensor that is complete a device must receive what it lacks of its part; where a dimension
is split by other axes than before, some device has nothing of its part. Whoever finds that a way was taken for too
cheap has it planned, and asks again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shardwright.axes import Axes, axes_size, common_prefix, subtract_axes
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import edge_bound, edge_cost, leads_to
from shardwright.partition.proposals import Shardings
from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import local_bytes

__all__ = ["Distances"]


class Distances:
    """Seconds between layouts, as far as they are known."""

    def __init__(self, hardware: Hardware) -> None:
        """By bounds only."""
        self.hardware = hardware
        self._planned: dict[tuple[TensorType, TensorSharding, TensorSharding], float] = {}
        self._between: dict[tuple[TensorType, Shardings, Shardings], NDArray[np.float64]] = {}

    def __call__(self, type: TensorType, source: TensorSharding, target: TensorSharding) -> float:
        """At least so many seconds; infinite where no plan leads there."""
        planned = self._planned.get((type, source, target))
        return least_seconds(type, source, target, self.hardware) if planned is None else planned

    def between(self, type: TensorType, sources: Shardings, targets: Shardings) -> NDArray[np.float64]:
        """The same for each of some layouts and each of others."""
        key = type, sources, targets
        if key not in self._between:
            self._between[key] = np.array([[self(type, one, other) for other in targets] for one in sources])
        return self._between[key]

    def plan(self, type: TensorType, source: TensorSharding, target: TensorSharding) -> bool:
        """Know it exactly from now on, and tell whether that is more than was known."""
        known = self(type, source, target)
        if not leads_to(source, target):
            return False
        seconds = price(edge_cost(type, source, target, self.hardware), self.hardware)
        self._planned[type, source, target] = seconds
        for key in [key for key in self._between if key[0] == type and source in key[1] and target in key[2]]:
            del self._between[key]
        return seconds > known * (1 + 1e-9)


@memoize
def least_seconds(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> float:
    """Seconds that bringing a tensor from one layout to another takes at least, told without a plan.

    Infinite where no plan leads there, the target being partial and the source not so: contributions are not made.
    """
    if source == target or not type.elements:
        return 0.0
    if not leads_to(source, target):
        return math.inf
    if source.partial:
        return price(edge_bound(type, source, target), hardware)
    if same_placement(source, target):
        return 0.0
    needed = local_bytes(type.dims, type.bytes // type.elements, target)
    lacking = needed * (1 - math.prod(map(_least_shared, source.axes, target.axes)))
    return price(Cost(lacking, int(lacking > 0)), hardware)


def _least_shared(before: Axes, after: Axes) -> float:
    """Which part of what it needs of a dimension the device has already that has least."""
    same = common_prefix(before, after)
    given, taken = (axes_size(subtract_axes(axes, same)) for axes in (before, after))
    return 0.0 if given > 1 and taken > 1 else 1 / given
