"""Maxima and means over windows that may end behind the image are torch's own, their places and gradients as well."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch

F = torch.nn.functional

POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEANS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def windows(rank: int, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """All that fit, of a few kernels, strides, paddings and dilations."""
    made = []
    for kernel, stride, padding, dilation in itertools.product((1, 2, 3), (1, 2, 3, 4), (0, 1), (1, 2)):
        if 2 * padding <= kernel and dilation * (kernel - 1) < min(sizes) + 2 * padding:
            made.append({"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation})
    return made[:: 1 if rank == 2 else 3]


class Pools(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """One image through many pools."""

    def __init__(self, pools: list[Callable[[Any], Any]], x: Any) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(x, requires_grad=x.is_floating_point())
        self.pools = pools

    def forward(self) -> Any:
        return [pool(self.x) for pool in self.pools]


def pools(rank: int, sizes: Sequence[int], **options: Any) -> list[Callable[[Any], Any]]:
    def pool(window: dict[str, Any]) -> Callable[[Any], Any]:
        return lambda x: POOLS[rank](x, **window, ceil_mode=True, **options)

    return [pool(window) for window in windows(rank, sizes)]


def means(rank: int) -> list[Callable[[Any], Any]]:
    """Of all that a window covers, of what is no padding, and by a divisor."""

    def mean(window: dict[str, Any], divisor: int | None) -> Callable[[Any], Any]:
        return lambda x: MEANS[rank](x, **window, **({} if rank == 1 else {"divisor_override": divisor}))

    names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
    made = [
        mean(dict(zip(names, values, strict=True)), divisor)
        for *values, divisor in itertools.product((1, 2, 3), (1, 2, 4), (0, 1), (False, True), (False, True), (None, 5))
        if 2 * values[2] <= values[0]
    ]
    return made[:: 1 if rank == 1 else 5]


def image(sizes: Sequence[int]) -> Any:
    torch.manual_seed(6)
    return torch.randn(2, 2, *sizes)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((8,), "float32"), ((9,), "float32"), ((7, 8), "float32"), ((10, 9), "int64"), ((5, 6, 7), "float32")],
)
def test_maxima_are_those_of_torch(sizes: Sequence[int], dtype: str) -> None:
    module = Pools(pools(len(sizes), sizes), (image(sizes) * 5).to(getattr(torch, dtype)))
    step: Any = sw.from_torch(module, ()).shard({"data": 2}, {"x": ("data",)}).partition().compile(trial=False)
    for made, expected in zip(step(), module(), strict=True):
        assert torch.equal(made, expected)


@pytest.mark.parametrize("sizes", [(9,), (7, 8)])
def test_places_are_those_in_the_image(sizes: Sequence[int]) -> None:
    module = Pools(pools(len(sizes), sizes, return_indices=True)[::4], image(sizes))
    step: Any = sw.from_torch(module, ()).shard({"data": 2}, {"x": ("data",)}).partition().compile(trial=False)
    for (made, places), (expected, own) in zip(step(), module(), strict=True):
        assert torch.equal(made, expected)
        assert torch.equal(places, own)


@pytest.mark.parametrize("sizes", [(9,), (7, 8), (5, 6, 7)])
def test_means_are_those_of_torch(sizes: Sequence[int]) -> None:
    module = Pools(means(len(sizes)), image(sizes))
    step: Any = sw.from_torch(module, ()).shard({"data": 2}, {"x": ("data",)}).partition().compile(trial=False)
    for made, expected in zip(step(), module(), strict=True):
        torch.testing.assert_close(made, expected.detach())


@pytest.mark.parametrize(
    ("sizes", "kind"), [((9,), pools), ((7, 8), pools), ((9,), means), ((7, 8), means), ((4, 5, 4), means)]
)
def test_gradients_are_those_of_torch(sizes: Sequence[int], kind: Callable[..., Any]) -> None:
    def loss(module: Any) -> Any:
        return sum((made * torch.linspace(-1, 1, made.numel()).view(made.shape)).sum() for made in module())

    given = (len(sizes), sizes) if kind is pools else (len(sizes),)
    module = Pools(kind(*given)[1::4], image(sizes))
    program = sw.from_torch(module, (), train=loss)
    _, gradients = program.shard({"data": 2}, {"x": ("data",)}).partition().compile(trial=False)()
    loss(module).backward()
    torch.testing.assert_close(gradients["x"], module.x.grad, rtol=1e-5, atol=1e-5)
