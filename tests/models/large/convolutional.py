"""A ResNet-50 as it is trained: batches in parts, weights in parts, images in parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan, from_jax

__all__ = ["RESNET", "SMALL_RESNET", "Sizes", "training"]

Tree = Any


class Sizes(NamedTuple):
    """How large it is; `stages` are the blocks and channels of each stage."""

    stages: tuple[tuple[int, int], ...]
    stem: int
    batch: int
    image: int
    classes: int


RESNET = Sizes(((3, 256), (4, 512), (6, 1024), (3, 2048)), 64, 256, 224, 1000)
SMALL_RESNET = Sizes(((1, 32), (1, 64)), 16, 8, 32, 8)


def _parameters(sizes: Sizes) -> Tree:
    def array(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    stages, before = [], sizes.stem
    for blocks, channels in sizes.stages:
        stage, inside = [], channels // 4
        for number in range(blocks):
            block = {
                "in": array(1, 1, before, inside),
                "mid": array(3, 3, inside, inside),
                "out": array(1, 1, inside, channels),
                "in_scale": array(inside),
                "mid_scale": array(inside),
                "out_scale": array(channels),
            }
            if not number:
                block["skip"] = array(1, 1, before, channels)
            stage.append(block)
            before = channels
        stages.append(stage)
    return {"stem": array(7, 7, 3, sizes.stem), "stages": stages, "classes": array(before, sizes.classes)}


def _convolved(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _normed(x: Any, scale: Any) -> Any:
    mean = jnp.mean(x, (0, 1, 2))
    variance = jnp.mean((x - mean) ** 2, (0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def _loss(params: Tree, images: Any, labels: Any) -> Any:
    x = jax.nn.relu(_convolved(images, params["stem"], 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for stage, blocks in enumerate(params["stages"]):
        for block in blocks:
            stride = 2 if "skip" in block and stage else 1
            h = jax.nn.relu(_normed(_convolved(x, block["in"]), block["in_scale"]))
            h = jax.nn.relu(_normed(_convolved(h, block["mid"], stride), block["mid_scale"]))
            h = _normed(_convolved(h, block["out"]), block["out_scale"])
            x = jax.nn.relu(h + (_convolved(x, block["skip"], stride) if "skip" in block else x))
    logits = jnp.mean(x, (1, 2)) @ params["classes"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], -1))


def _step(params: Tree, momentum: Tree, images: Any, labels: Any) -> Any:
    loss, grads = jax.value_and_grad(_loss)(params, images, labels)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, loss


def training(mesh: Mesh, sizes: Sizes, images: str = "data,-,-,-", split_weights: bool = False) -> Plan:
    """A training step; with `split_weights` kernels and their momentum lie in parts of their features."""
    params = _parameters(sizes)
    batch = jax.ShapeDtypeStruct((sizes.batch, sizes.image, sizes.image, 3), jnp.float32)
    labels = jax.ShapeDtypeStruct((sizes.batch,), jnp.int32)
    program = from_jax(_step, params, params, batch, labels)
    given = {"images": images, "labels": "data"}
    if split_weights:
        parts = [name for name, type in program.arguments.items() if name != "images" and type.rank == 4]
        given |= {name: "-,-,-,data" for name in parts if program.arguments[name].dims[3] % mesh.size == 0}
    return program.shard(mesh, given)
