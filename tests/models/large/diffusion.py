"""A U-Net as it is trained to tell noise from images: what goes down is kept, and joined on the way up."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import Rule, Table, Tree, array, attention, attention_parameters, sgd, sharded

__all__ = ["SMALL_UNET", "UNET", "Sizes", "training"]

_CHANNELS = 4
"""Of images."""


class Sizes(NamedTuple):
    """How large it is: `multiples` of the width are the channels of levels, of which those from `attended` on attend.

    A level has `blocks` on the way down, and one more on the way up. `groups` are those of norms, `head` is the size of
    heads.
    """

    width: int
    multiples: tuple[int, ...]
    blocks: int
    attended: int
    groups: int
    head: int
    batch: int
    image: int


UNET = Sizes(192, (1, 2, 3, 4), 2, 2, 32, 64, 64, 64)
SMALL_UNET = Sizes(8, (1, 2), 1, 1, 4, 8, 8, 16)


def _convolution(before: int, after: int) -> Tree:
    return {"kernel": array(3, 3, before, after), "bias": array(after)}


def _residual(before: int, after: int, time: int) -> Tree:
    return {
        "scale": array(before),
        "shift": array(before),
        "kernel": array(3, 3, before, after),
        "time": array(time, after),
        "second_scale": array(after),
        "second_shift": array(after),
        "second_kernel": array(3, 3, after, after),
        "skip": array(1, 1, before, after),
    }


def _down(sizes: Sizes) -> tuple[list[Tree], list[int]]:
    """Levels on the way down, and the channels of all that is kept there."""
    levels, kept = [], [sizes.width]
    for number, multiple in enumerate(sizes.multiples):
        channels, blocks = sizes.width * multiple, []
        for _ in range(sizes.blocks):
            blocks.append(_residual(kept[-1], channels, 4 * sizes.width))
            kept.append(channels)
        level: Tree = {"blocks": blocks}
        if number >= sizes.attended:
            level["attention"] = attention_parameters(channels) | {"scale": array(channels), "shift": array(channels)}
        if number < len(sizes.multiples) - 1:
            level["smaller"] = _convolution(channels, channels)
            kept.append(channels)
        levels.append(level)
    return levels, kept


def _up(sizes: Sizes, kept: list[int]) -> list[Tree]:
    """Levels on the way up, each block of which takes one of those kept, the last first."""
    levels, before, left = [], kept[-1], list(kept)
    for number, multiple in reversed(list(enumerate(sizes.multiples))):
        channels, blocks = sizes.width * multiple, []
        for _ in range(sizes.blocks + 1):
            blocks.append(_residual(before + left.pop(), channels, 4 * sizes.width))
            before = channels
        levels.append({"blocks": blocks} | ({"larger": _convolution(channels, channels)} if number else {}))
    return levels


def _parameters(sizes: Sizes) -> Tree:
    down, kept = _down(sizes)
    time = 4 * sizes.width
    return {
        "first": _convolution(_CHANNELS, sizes.width),
        "times": [array(sizes.width, time), array(time, time)],
        "down": down,
        "middle": _residual(kept[-1], kept[-1], time),
        "up": _up(sizes, kept),
        "last": _convolution(sizes.width * sizes.multiples[0], _CHANNELS),
    }


def _convolved(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _biased(x: Any, layer: Tree, stride: int = 1) -> Any:
    return _convolved(x, layer["kernel"], stride) + layer["bias"]


def _normed(x: Any, scale: Any, shift: Any, groups: int) -> Any:
    """By the mean and variance of groups of channels of an image, in float32."""
    wide = x.astype(jnp.float32).reshape(*x.shape[:3], groups, -1)
    centred = wide - wide.mean((1, 2, 4), keepdims=True)
    variance = (centred**2).mean((1, 2, 4), keepdims=True)
    return (centred * lax.rsqrt(variance + 1e-5)).reshape(x.shape).astype(x.dtype) * scale + shift


def _block(x: Any, layer: Tree, time: Any, groups: int) -> Any:
    normed = _normed(x, layer["scale"], layer["shift"], groups)
    h = _convolved(jax.nn.silu(normed), layer["kernel"]) + (time @ layer["time"])[:, None, None]
    normed = _normed(h, layer["second_scale"], layer["second_shift"], groups)
    return _convolved(x, layer["skip"]) + _convolved(jax.nn.silu(normed), layer["second_kernel"])


def _attended(x: Any, layer: Tree, sizes: Sizes) -> Any:
    """Each pixel to all of its image."""
    normed = _normed(x, layer["scale"], layer["shift"], sizes.groups).reshape(x.shape[0], -1, x.shape[-1])
    return x + attention(normed, layer, x.shape[-1] // sizes.head).reshape(x.shape)


def _larger(x: Any) -> Any:
    batch, height, width, channels = x.shape
    return jax.image.resize(x, (batch, 2 * height, 2 * width, channels), "nearest")


def _time(times: Any, layers: list[Any]) -> Any:
    width = layers[0].shape[0]
    angles = times.astype(jnp.float32)[:, None] * jnp.exp(-0.1 * jnp.arange(width // 2))
    waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1).astype(layers[0].dtype)
    return jax.nn.silu(waves @ layers[0]) @ layers[1]


def _noise(params: Tree, x: Any, times: Any, sizes: Sizes) -> Any:
    time = _time(times, params["times"])
    x = _biased(x, params["first"])
    kept = [x]
    for level in params["down"]:
        for one in level["blocks"]:
            x = _block(x, one, time, sizes.groups)
            kept.append(x)
        if "attention" in level:
            x = kept[-1] = _attended(x, level["attention"], sizes)
        if "smaller" in level:
            x = _biased(x, level["smaller"], 2)
            kept.append(x)
    x = _block(x, params["middle"], time, sizes.groups)
    for level in params["up"]:
        for one in level["blocks"]:
            x = _block(jnp.concatenate([x, kept.pop()], -1), one, time, sizes.groups)
        x = _biased(_larger(x), level["larger"]) if "larger" in level else x
    return _biased(jax.nn.silu(x), params["last"])


def _loss(params: Tree, batch: Tree, sizes: Sizes) -> Any:
    found = _noise(params, batch["noisy"], batch["times"], sizes)
    return jnp.mean((found - batch["noise"]).astype(jnp.float32) ** 2)


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`, and rows of images over `space` where a mesh has that."""
    images = array(sizes.batch, sizes.image, sizes.image, _CHANNELS)
    batch = {"noise": images, "noisy": images, "times": array(sizes.batch, dtype=jnp.int32)}
    split = ("data", "space" if "space" in mesh.sizes else None, None, None)
    others = {"batch/noise": split, "batch/noisy": split, "batch/times": ("data",)}
    return sharded(sgd(partial(_loss, sizes=sizes)), (_parameters(sizes), batch), mesh, table, others)
