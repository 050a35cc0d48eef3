"""A simulation on a grid: two substances that react and spread (Gray and Scott), around the edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import WHOLE, Axes, array, sharded

__all__ = ["GRID", "SMALL_GRID", "Sizes", "running"]


class Sizes(NamedTuple):
    """Points along each side of the grid, and steps."""

    points: int
    steps: int


GRID = Sizes(8192, 50)
SMALL_GRID = Sizes(32, 4)


def _spread(x: Any) -> Any:
    """The Laplacian, of five points."""
    return jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x


def running(mesh: Mesh, grid: Axes, sizes: Sizes) -> Plan:
    """Steps from what there is of both."""

    def tick(both: Any, _: None) -> Any:
        fed, grown = both
        reacted = fed * grown * grown
        next_fed = fed + 0.16 * _spread(fed) - reacted + 0.06 * (1 - fed)
        return (next_fed, grown + 0.08 * _spread(grown) + reacted - 0.122 * grown), None

    def run(fed: Any, grown: Any) -> Any:
        return lax.scan(tick, (fed, grown), None, length=sizes.steps)[0]

    points = array(sizes.points, sizes.points, dtype=jnp.float32)
    return sharded(run, (points, points), mesh, WHOLE, {"fed": grid, "grown": grid})
