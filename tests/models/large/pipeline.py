"""A pipeline of stages, each on devices of its own: at each tick micro-batches move on by one."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import Axes, Tree, array, block, block_parameters, sgd, sharded

__all__ = ["FEW_STAGES", "STAGES", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is; `layers` are those of a stage, `batch` is that of each of the `micro` micro-batches."""

    stages: int
    layers: int
    width: int
    hidden: int
    heads: int
    micro: int
    batch: int
    length: int


STAGES = Sizes(4, 4, 2048, 8192, 16, 8, 8, 1024)
FEW_STAGES = Sizes(4, 1, 16, 32, 4, 4, 4, 8)


def _stage(layers: Tree, x: Any, heads: int) -> Any:
    layer = jax.checkpoint(partial(block, heads=heads))
    return lax.scan(lambda h, one: (layer(h, one), None), x, layers)[0]


def _loss(params: Tree, x: Any, sizes: Sizes) -> Any:
    stages = jax.vmap(partial(_stage, heads=sizes.heads))

    def tick(inside: Any, entering: Any) -> Any:
        inside = stages(params, jnp.concatenate([entering[None], inside[:-1]]))
        return inside, inside[-1]

    inside = jnp.zeros((sizes.stages, *x.shape[1:]), x.dtype)
    entering = jnp.concatenate([x, jnp.zeros((sizes.stages - 1, *x.shape[1:]), x.dtype)])
    _, leaving = lax.scan(tick, inside, entering)
    return jnp.mean(leaving[sizes.stages - 1 :].astype(jnp.float32) ** 2)


def _by_stage(type: TensorType, mesh: Mesh) -> Axes:
    return ("stage", *(None,) * (type.rank - 1))


def training(mesh: Mesh, sizes: Sizes) -> Plan:
    """A training step, stages over `stage`, each micro-batch over `data`."""
    params = block_parameters(sizes.width, sizes.hidden, (sizes.stages, sizes.layers))
    batch = array(sizes.micro, sizes.batch, sizes.length, sizes.width)
    step = sgd(partial(_loss, sizes=sizes))
    return sharded(step, (params, batch), mesh, _by_stage, {"batch": (None, "data", None, None)})
