"""A Fourier neural operator: layers that mix the lowest frequencies of a field.

Li et al., https://arxiv.org/abs/2010.08895.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import WHOLE, Tree, array, sgd, sharded

__all__ = ["FIELDS", "SMALL_FIELDS", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is; `modes` are the frequencies along each side that are mixed."""

    layers: int
    width: int
    modes: int
    batch: int
    points: int


FIELDS = Sizes(4, 64, 32, 64, 256)
SMALL_FIELDS = Sizes(2, 8, 4, 8, 16)


def _layer(x: Any, layer: Tree, modes: int) -> Any:
    waves = jnp.fft.rfft2(x, axes=(1, 2))
    mixed = jnp.einsum("bxyi,ioxy->bxyo", waves[:, :modes, :modes], layer["real"] + 1j * layer["imaginary"])
    waves = jnp.zeros(waves.shape, waves.dtype).at[:, :modes, :modes].set(mixed)
    return jax.nn.gelu(jnp.fft.irfft2(waves, axes=(1, 2)) + x @ layer["direct"])


def _loss(params: Tree, fields: Any, modes: int) -> Any:
    x = fields
    for layer in params:
        x = _layer(x, layer, modes)
    return jnp.mean((x - fields) ** 2)


def training(mesh: Mesh, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`, and rows of fields over `space` where a mesh has that."""
    wide, modes, points = sizes.width, sizes.modes, sizes.points
    frequencies = array(wide, wide, modes, modes, dtype=jnp.float32)
    layer = {"real": frequencies, "imaginary": frequencies, "direct": array(wide, wide, dtype=jnp.float32)}
    arguments = ([layer] * sizes.layers, array(sizes.batch, points, points, wide, dtype=jnp.float32))
    split = ("data", "space" if "space" in mesh.sizes else None, None, None)
    return sharded(sgd(partial(_loss, modes=modes)), arguments, mesh, WHOLE, {"batch": split})
