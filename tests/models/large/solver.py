"""Conjugate gradients: a system of equations, dense, its matrix in parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import WHOLE, Axes, array, sharded

__all__ = ["EQUATIONS", "FEW_EQUATIONS", "Sizes", "solving"]


class Sizes(NamedTuple):
    """How many equations, and steps towards what solves them."""

    equations: int
    steps: int


EQUATIONS = Sizes(32768, 20)
FEW_EQUATIONS = Sizes(64, 4)


def solving(mesh: Mesh, matrix: Axes, sizes: Sizes) -> Plan:
    """Steps from zero, and how far off each of them still is."""

    def solve(matrix: Any, right: Any) -> Any:
        def tick(state: Any, _: None) -> Any:
            found, residual, direction, off = state
            along = matrix @ direction
            far = off / (direction @ along)
            found, residual = found + far * direction, residual - far * along
            left = residual @ residual
            return (found, residual, residual + left / off * direction, left), left

        start = (jnp.zeros_like(right), right, right, right @ right)
        (found, *_), each = lax.scan(tick, start, None, length=sizes.steps)
        return found, each

    size = sizes.equations
    arguments = (array(size, size, dtype=jnp.float32), array(size, dtype=jnp.float32))
    return sharded(solve, arguments, mesh, WHOLE, {"matrix": matrix})
