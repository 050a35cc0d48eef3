"""Convolutional nets, images split by rows, by channels or by both."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import GRID, LINE, ODD, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints, xent

Tree = Any
LETTERS = ("NHWC", "HWIO", "NHWC")


def conv(x: Any, kernel: Any, stride: int = 1, **options: Any) -> Any:
    """Images in NHWC, kernels in HWIO."""
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=LETTERS, **options)


def up(x: Any, kernel: Any) -> Any:
    """Twice as high and wide."""
    return lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=LETTERS)


def pooled(x: Any, computation: Any = lax.max, start: float = -jnp.inf) -> Any:
    """The largest of each square of four."""
    return lax.reduce_window(x, start, computation, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def normed(x: Any, axes: Any = -1) -> Any:
    """Mean 0 and variance 1 along `axes`."""
    return (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


@net(
    {"k1": array(3, 3, 8, 8), "k2": array(3, 3, 8, 8), "head": array(8, 10)},
    {"x": array(4, 16, 16, 8), "y": ints(4)},
    args={"batch/x": "data,model,-,-", "batch/y": "data"},
)
def residual_net_by_rows(params: Tree, batch: Tree) -> Any:
    """A training step; rows of the images are split, so convolutions exchange halos, and their gradients too."""

    def loss(p: Tree) -> Any:
        h = batch["x"] + conv(jax.nn.relu(normed(conv(batch["x"], p["k1"]), (0, 1, 2))), p["k2"])
        return xent(jax.nn.relu(h).mean((1, 2)) @ p["head"], batch["y"])

    value, grads = jax.value_and_grad(loss)(params)
    return descend(params, grads), value


@net(
    {"a": array(3, 3, 4, 8), "b": array(3, 3, 8, 16), "up": array(2, 2, 16, 8), "c": array(3, 3, 16, 4)},
    array(4, 16, 16, 4),
    args={"x": "data,model,-,-"},
)
def u_net(params: Tree, x: Any) -> Any:
    """Down by pooling, up by a transposed convolution, and joined with what was there before."""
    wide = jax.nn.relu(conv(x, params["a"]))
    deep = jax.nn.relu(conv(pooled(wide), params["b"]))
    return conv(jnp.concatenate([wide, up(deep, params["up"])], -1), params["c"])


@net(
    {"down": array(4, 4, 4, 8), "mid": array(3, 3, 8, 8), "up": array(2, 2, 8, 4)},
    {"x": array(4, 16, 16, 4), "clean": array(4, 16, 16, 4)},
    args={"batch": "data,-,model,-"},
)
def u_net_gradient(params: Tree, batch: Tree) -> Any:
    """Strided convolution down, transposed convolution up, columns split."""

    def loss(p: Tree) -> Any:
        h = jax.nn.silu(conv(batch["x"], p["down"], 2))
        h = h + jax.nn.silu(conv(h, p["mid"]))
        return jnp.mean((batch["x"] - up(h, p["up"]) - batch["clean"]) ** 2)

    return jax.grad(loss)(params)


@net(
    {"depth": array(7, 7, 1, 8), "up": array(8, 32), "down": array(32, 8), "scale": array(8)},
    array(2, 32, 16, 8),
    args={"x": "data,model,-,-"},
)
def conv_next(params: Tree, x: Any) -> Any:
    """A depthwise convolution of seven rows, more than a shard of eight has beside it, and a layer for each pixel."""
    h = normed(conv(x, params["depth"], feature_group_count=8))
    return x + params["scale"] * (jax.nn.gelu(h @ params["up"]) @ params["down"])


@net(
    {
        "wide": array(1, 1, 8, 32),
        "depth": array(3, 3, 1, 32),
        "slim": array(1, 1, 32, 8),
        "s1": array(32, 8),
        "s2": array(8, 32),
    },
    array(4, 8, 8, 8),
    args={"params/wide": "-,-,-,model", "params/depth": "-,-,-,model", "params/slim": "-,-,model,-", "x": "data,-,-,-"},
)
def mobile_net_by_channels(params: Tree, x: Any) -> Any:
    """An inverted residual with squeeze and excitation, channels split."""
    h = jax.nn.relu6(conv(x, params["wide"]))
    h = jax.nn.relu6(conv(h, params["depth"], feature_group_count=32))
    gate = jax.nn.sigmoid(jax.nn.relu(h.mean((1, 2)) @ params["s1"]) @ params["s2"])
    return x + conv(h * gate[:, None, None], params["slim"])


@net(
    {"first": array(1, 1, 4, 16), "depth": array(3, 3, 1, 16), "second": array(1, 1, 4, 16)},
    array(4, 8, 8, 16),
    args={"x": "data,-,-,model"},
)
def shuffle_net(params: Tree, x: Any) -> Any:
    """Convolutions in groups; channels change groups between them."""
    h = jax.nn.relu(conv(x, params["first"], feature_group_count=4))
    h = h.reshape(4, 8, 8, 4, 4).swapaxes(3, 4).reshape(4, 8, 8, 16)
    h = conv(h, params["depth"], feature_group_count=16)
    return jax.nn.relu(x + conv(h, params["second"], feature_group_count=4))


@net(
    [array(3, 8, 8), array(3, 8, 8), array(3, 8, 8)],
    {"x": array(4, 64, 8), "y": array(4, 64, 8)},
    args={"batch": "data,model,-"},
)
def temporal_convolutions(params: Tree, batch: Tree) -> Any:
    """Causal and ever more dilated; time is split."""

    def loss(kernels: Tree) -> Any:
        h = batch["x"]
        for level, kernel in enumerate(kernels):
            step = 2**level
            before = [(2 * step, 0)]
            out = lax.conv_general_dilated(
                h, kernel, (1,), before, rhs_dilation=(step,), dimension_numbers=("NWC", "WIO", "NWC")
            )
            h = h + jax.nn.relu(out)
        return jnp.mean((h - batch["y"]) ** 2)

    return jax.value_and_grad(loss)(params)


@net(
    {"k": array(3, 3, 3, 4, 8), "head": array(8, 5)},
    array(2, 8, 8, 8, 4),
    args={"x": "data,model,-,-,-"},
)
def video_classifier(params: Tree, x: Any) -> Any:
    """Convolution in space and time; frames are split."""
    h = lax.conv_general_dilated(x, params["k"], (1, 2, 2), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
    return jax.nn.log_softmax(jax.nn.relu(h).max((1, 2, 3)) @ params["head"])


@net(
    {"k": array(3, 3, 4, 8), "head": array(8 * 16, 10)},
    {"x": array(6, 12, 8, 4), "y": ints(6)},
    args={"batch/x": "data,model,-,-", "batch/y": "data"},
    mesh=ODD,
)
def pooling_gradients(params: Tree, batch: Tree) -> Any:
    """Largest and mean of squares, and a layer on all pixels; six devices."""

    def loss(p: Tree) -> Any:
        h = pooled(conv(batch["x"], p["k"]))
        h = pooled(jnp.pad(h, ((0, 0), (1, 1), (2, 2), (0, 0))), lax.add, 0.0) / 4
        return xent(h.reshape(6, -1) @ p["head"], batch["y"])

    return jax.grad(loss)(params)


@net(
    {"patch": array(4, 4, 4, 32), "q": array(32, 32), "k": array(32, 32), "v": array(32, 32), "place": array(16, 32)},
    array(4, 16, 16, 4),
    args={"params/q": "-,model", "params/k": "-,model", "params/v": "-,model", "x": "data,-,-,-"},
)
def vision_transformer(params: Tree, x: Any) -> Any:
    """Patches become tokens; heads are split."""
    tokens = lax.conv_general_dilated(x, params["patch"], (4, 4), "VALID", dimension_numbers=LETTERS)
    tokens = normed(tokens.reshape(4, 16, 32) + params["place"])
    q, k, v = ((tokens @ params[name]).reshape(4, 16, 4, 8) for name in "qkv")
    return tokens + jax.nn.dot_product_attention(q, k, v).reshape(4, 16, 32)


@net(
    {"q": array(16, 16), "k": array(16, 16), "v": array(16, 16)},
    array(2, 16, 16, 16),
    args={"x": "data,model,-,-"},
)
def shifted_windows(params: Tree, x: Any) -> Any:
    """Attention inside of windows of 4 by 4, which are moved by two rows and columns."""
    moved = jnp.roll(x, (-2, -2), (1, 2))
    windows = moved.reshape(2, 4, 4, 4, 4, 16).swapaxes(2, 3).reshape(2 * 16, 16, 16)
    q, k, v = (windows @ params[name] for name in "qkv")
    out = jax.nn.softmax(q @ k.swapaxes(1, 2) / 4.0) @ v
    out = out.reshape(2, 4, 4, 4, 4, 16).swapaxes(2, 3).reshape(2, 16, 16, 16)
    return x + jnp.roll(out, (2, 2), (1, 2))


@net(
    {"low": array(8, 8, 4, 4, 2), "skip": array(4, 4)},
    array(8, 16, 16, 4),
    args={"x": "data,-,-,-"},
    mesh=LINE,
)
def fourier_layer(params: Tree, x: Any) -> Any:
    """A Fourier neural operator: low frequencies are mixed, the others dropped."""
    waves = jnp.fft.rfft2(x, axes=(1, 2))
    mixed = jnp.einsum("bhwi,hwio->bhwo", waves[:, :8, :8], lax.complex(params["low"][..., 0], params["low"][..., 1]))
    low = jnp.zeros_like(waves).at[:, :8, :8].set(mixed)
    return jax.nn.gelu(jnp.fft.irfft2(low, axes=(1, 2)) + x @ params["skip"])


@net(
    {"signal": array(8, 64), "filter": array(8, 64)},
    args={"arrays/signal": "data,-", "arrays/filter": "data,-"},
    mesh=LINE,
)
def long_convolution(arrays: Tree) -> Any:
    """A filter as long as the signal, by Fourier transforms of both."""
    size = 128
    product = jnp.fft.rfft(arrays["signal"], size) * jnp.fft.rfft(arrays["filter"] / 8, size)
    return jnp.fft.irfft(product, size)[:, :64]


@net(array(4, 16, 24, 3), ints(4), args={"images": "data,model,-,-", "seeds": "data"})
def augmented_images(images: Any, seeds: Any) -> Any:
    """Flipped or not, cut anywhere, made lighter, and scaled up: each image by its own draw."""

    def one(image: Any, seed: Any) -> Any:
        keys = jax.random.split(jax.random.key(seed), 3)
        image = jnp.where(jax.random.bernoulli(keys[0]), image, image[:, ::-1])
        padded = jnp.pad(image, ((2, 2), (2, 2), (0, 0)), mode="reflect")
        top, left = jax.random.randint(keys[1], (2,), 0, 5)
        cut = lax.dynamic_slice(padded, (top, left, 0), (16, 24, 3))
        return cut * jax.random.uniform(keys[2], (), minval=0.8, maxval=1.2)

    return jax.image.resize(jax.vmap(one)(images, seeds), (4, 32, 48, 3), "bilinear")


@net(array(2, 32, 32, 4), args={"x": "data,model,-,-"})
def wavelet_pyramid(x: Any) -> Any:
    """Sums and differences of neighbours, level by level, by strided slices."""
    details = []
    for _ in range(2):
        even, odd = x[:, ::2], x[:, 1::2]
        rows, fine = (even + odd) / 2, (even - odd) / 2
        details.append((fine, (rows[:, :, ::2] - rows[:, :, 1::2]) / 2))
        x = (rows[:, :, ::2] + rows[:, :, 1::2]) / 2
    return x, details


@net(array(2, 16, 16, 8), array(2, 16, 16, 2), args={"x": "data,-,-,model", "flow": "data,-,-,-"})
def warped_images(x: Any, flow: Any) -> Any:
    """Each pixel from where a field of motions points, between four pixels."""

    def one(image: Any, motion: Any) -> Any:
        rows, columns = jnp.meshgrid(jnp.arange(16.0), jnp.arange(16.0), indexing="ij")
        at = [rows + motion[..., 0], columns + motion[..., 1]]

        def sample(plane: Any) -> Any:
            return jax.scipy.ndimage.map_coordinates(plane, at, 1, mode="nearest")

        return jax.vmap(sample, -1, -1)(image)

    return jax.vmap(one)(x, flow)


@net(
    {"low": array(3, 3, 4, 6), "high": array(3, 3, 6, 6), "head": array(6, 3)},
    array(2, 15, 15, 4),
    args={"x": "data,model,-,-"},
    mesh=GRID,
)
def segmentation_of_odd_images(params: Tree, x: Any) -> Any:
    """Fifteen rows over four devices, dilated convolutions, and local response normalization."""
    h = jax.nn.relu(conv(x, params["low"]))
    h = jax.nn.relu(conv(h, params["high"], rhs_dilation=(2, 2)))
    near = lax.reduce_window(h * h, 0.0, lax.add, (1, 1, 1, 3), (1, 1, 1, 1), "SAME")
    return jnp.argmax((h * lax.rsqrt(1 + near)) @ params["head"], -1), h
