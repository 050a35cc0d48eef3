"""A vision transformer as it is trained to tell what images show."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import (
    Rule,
    Table,
    Tree,
    adam,
    alike,
    array,
    block,
    block_parameters,
    layer_norm,
    sharded,
)

__all__ = ["SMALL_VIT", "VIT", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is; images and their patches are square."""

    layers: int
    width: int
    hidden: int
    heads: int
    batch: int
    image: int
    patch: int
    classes: int


VIT = Sizes(24, 1024, 4096, 16, 512, 224, 14, 1000)
SMALL_VIT = Sizes(2, 16, 32, 8, 8, 8, 2, 8)


def _parameters(sizes: Sizes) -> Tree:
    wide, patch = sizes.width, sizes.patch
    return {
        "patches": array(patch, patch, 3, wide),
        "patches_bias": array(wide),
        "positions": array((sizes.image // patch) ** 2 + 1, wide),
        "class_token": array(wide),
        "blocks": block_parameters(wide, sizes.hidden, (sizes.layers,)),
        "last_scale": array(wide),
        "last_shift": array(wide),
        "classes": array(wide, sizes.classes),
        "classes_bias": array(sizes.classes),
    }


def _embedded(params: Tree, images: Any) -> Any:
    """A token for what the image shows, and one for each patch."""
    kernel = params["patches"]
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(images, kernel, kernel.shape[:2], "VALID", dimension_numbers=dims)
    x = (x + params["patches_bias"]).reshape(x.shape[0], -1, x.shape[-1])
    token = jnp.broadcast_to(params["class_token"], (x.shape[0], 1, x.shape[-1]))
    return jnp.concatenate([token, x], 1) + params["positions"]


def _loss(params: Tree, batch: Tree, sizes: Sizes) -> Any:
    layer = jax.checkpoint(partial(block, heads=sizes.heads))
    x = _embedded(params, batch["images"])
    x, _ = lax.scan(lambda h, one: (layer(h, one), None), x, params["blocks"])
    x = layer_norm(x[:, 0], params["last_scale"], params["last_shift"])
    logits = (x @ params["classes"] + params["classes_bias"]).astype(jnp.float32)
    shown = jax.nn.one_hot(batch["labels"], sizes.classes)
    return -jnp.mean(jnp.sum(shown * jax.nn.log_softmax(logits), -1))


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`."""
    params = _parameters(sizes)
    images = array(sizes.batch, sizes.image, sizes.image, 3)
    batch = {"images": images, "labels": array(sizes.batch, dtype=jnp.int32)}
    others = {"batch/images": ("data", None, None, None), "batch/labels": ("data",)}
    step = adam(partial(_loss, sizes=sizes))
    return sharded(step, (params, alike(params), alike(params), batch), mesh, table, others)
