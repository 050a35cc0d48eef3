"""Gradients of single ops, which AOTAutograd, torch-mlir and we take apart in turn, are torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shardwright as sw
from tests.frontends.torch.installed import torch

F = torch.nn.functional


def pieces(x: Any) -> Any:
    """What is written into tensors that were no numbers before."""
    made, like = torch.empty(4, 6, 8, 8), torch.empty_like(x)
    made[:, :2], made[:, 2:] = x[:, :2], x[:, :4] * 2
    like[..., 0], like[..., 1:] = x[..., 1], x[..., 1:]
    return made + like * x.new_empty(8).copy_(x[0, 0, 0])


OPS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[:, 1:5],
    "slice to the end": lambda x: x[..., 3:],
    "slice from behind": lambda x: x[:, -3:-1],
    "slice with steps": lambda x: x[:, 1:6:2] * x[:, ::3][:, :1],
    "select": lambda x: x[:, 2] * x[:, -1],
    "maximum over windows": lambda x: F.max_pool2d(x, 2),
    "overlapping windows": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    "mean over windows": lambda x: F.avg_pool2d(x, 2),
    "squeeze": lambda x: x[:, :1].squeeze(1) * x.mean((2, 3), keepdim=True).squeeze((2, 3))[:, :1, None],
    "layer norm": lambda x: F.layer_norm(x, (8, 8)),
    "group norm": lambda x: F.group_norm(x, 3),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "instance norm": lambda x: F.instance_norm(x),
    "softmax": lambda x: F.softmax(x, -1) * F.log_softmax(x, 1),
    "gelu": lambda x: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "activations": lambda x: F.silu(x) + F.elu(x) + F.softplus(x) + F.leaky_relu(x) + F.hardswish(x) + torch.tanh(x),
    "clamp": lambda x: x.clamp(-0.5, 0.5) + F.relu6(x) + F.hardtanh(x),
    "powers": lambda x: x**3 + (x * x + 1).sqrt() + (x * x + 1).rsqrt() + x.abs().log1p(),
    "variance": lambda x: x.var(1) + x.std((1,)) + x.norm(dim=1),
    "extremes": lambda x: x.amax(1) + x.max(2).values.sum(2)[:, :, None].amin(1, keepdim=True)[..., 0, None],
    "cumsum": lambda x: x.cumsum(1) + x.cumsum(-1),
    "embedding": lambda x: F.embedding(torch.tensor([[0, 3, 3], [1, 2, 0]]), x.flatten(1)),
    "index from behind": lambda x: (
        x[:, torch.tensor([-1, 0])] * x[:, [-2]]
        + torch.zeros(2, 8, 8, dtype=x.dtype).index_put((torch.tensor([-1]),), x[0, :1])
    ),
    "diagonal": lambda x: x.diagonal(1, 2, 3) + torch.einsum("bcii->bci", x)[..., 1:] + x[0, :, 0].trace(),
    "index": lambda x: x[:, torch.tensor([0, 2, 2])] * x.index_select(1, torch.tensor([1, 1, 3])),
    "gather": lambda x: x.gather(1, torch.zeros(4, 2, 8, 8, dtype=torch.int64)),
    "scatter": lambda x: torch.zeros_like(x).scatter_add(1, torch.ones(4, 6, 8, 8, dtype=torch.int64), x),
    "where": lambda x: torch.where(x > 0, x, x * x).masked_fill(x > 1, 0.0),
    "triangle": lambda x: x.tril() + x.triu(1),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1)),
    "pad from the other end": lambda x: F.pad(x, (1, 2, 0, 3, 6, 4), "circular"),
    "pad from the other end of what is cut": lambda x: F.pad(x, (-1, 4, 5, -2, 6, 2), "circular"),
    "written piece by piece": lambda x: pieces(x) * torch.empty(8).fill_(2),
    "flip and roll": lambda x: x.flip(1) * x.roll(2, 2) + x.roll(-3),
    "repeat": lambda x: x.repeat(1, 2, 1, 1) * x.repeat_interleave(2, 1),
    "stack and split": lambda x: torch.stack(x.chunk(3, 1)).sum(0) * torch.cat(x.split(2, 1)[:1], 1),
    "sort": lambda x: x.sort(1).values * x.topk(6, 1).values * x.sort(dim=1, stable=True, descending=True).values,
    "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, x) + torch.bmm(x[:, :, 0], x[:, :, 0].transpose(1, 2)),
    "grouped convolution": lambda x: F.conv2d(x, x[:, :2, :3, :3].reshape(4, 2, 3, 3)[:3].repeat(2, 1, 1, 1), groups=3),
    "convolution of each channel": lambda x: F.conv1d(
        x.flatten(2), x[0, :, 0, :4].unsqueeze(1), padding=3, dilation=2, stride=3, groups=6
    ),
    "transposed convolution": lambda x: F.conv_transpose2d(x, x[:, :3, :2, :2].repeat(2, 1, 1, 1)[:6], stride=2),
    "losses": lambda x: F.smooth_l1_loss(x, -x.detach()) + F.mse_loss(x, x.detach() + 1) + F.l1_loss(x, x.detach() - 1),
    "binary entropy": lambda x: F.binary_cross_entropy_with_logits(x, (x.detach() > 0).to(x.dtype)),
    "entropy": lambda x: F.cross_entropy(x, torch.ones(4, 8, 8, dtype=torch.int64), label_smoothing=0.1),
    "entropy with what is left out": lambda x: F.cross_entropy(
        x.mean((2, 3)), torch.tensor([1, -100, 3, -100]), weight=torch.arange(1.0, 7.0, dtype=x.dtype)
    ),
    "interpolation": lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, size=(16, 16), mode="bilinear"),
    "bags of one size": lambda x: F.embedding_bag(torch.tensor([[0, 3], [1, 3]]), x.flatten(1), padding_idx=3),
    "bags of any size": lambda x: F.embedding_bag(
        torch.tensor([0, 3, 1, 2, 2]), x.flatten(1), torch.tensor([0, 2, 2]), mode="mean"
    ),
    "weighted bags": lambda x: F.embedding_bag(
        torch.tensor([[0, 3], [1, 2]]), x.flatten(1), mode="sum", per_sample_weights=x[0, 0, :2, :2]
    ),
    "distances": lambda x: torch.cdist(x[0].flatten(1), x[0].flatten(1)) + torch.cdist(x[0, :, 0], x[1, :, 0], p=1),
    "what divisions leave": lambda x: x.fmod(0.7) + x.remainder(0.7) + x.remainder(-0.7) + (x.detach() + 5).fmod(x),
    "cumprod": lambda x: x.cumprod(1) + x.cumprod(-1),
    "scattered means": lambda x: torch.zeros(4, 3, 8, 8, dtype=x.dtype).scatter_reduce(
        1, (torch.arange(6) % 3).view(1, 6, 1, 1).expand(4, 6, 8, 8), x, "mean"
    ),
    "scattered sums": lambda x: (
        torch.ones(4, 3, 8, 8, dtype=x.dtype).scatter_reduce(
            1, (torch.arange(6) % 2).view(1, 6, 1, 1).expand(4, 6, 8, 8), x, "sum", include_self=False
        )
        * x[:, :3].scatter_reduce(1, torch.zeros(4, 6, 8, 8, dtype=torch.int64), x, "sum")
    ),
    "windows of a row": lambda x: x.unfold(-1, 3, 2) * x.unfold(3, 3, 2)[..., :1],
    "windows beside each other": lambda x: x.unfold(1, 3, 3),
    "matrices and vectors": lambda x: (
        torch.addmv(x[0, 0, 0], x[0, 0], x[1, 0, 0], beta=0.5, alpha=2) + torch.addr(x[0, 0], x[0, 0, 0], x[1, 0, 0])[0]
    ),
    "blocks on a diagonal": lambda x: torch.block_diag(x[0, 0], x[0, 1, :3], x[0, 2, 0, 0]),
    "median": lambda x: x.median(1).values + x.kthvalue(2, 1).values,
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 2),
    "hypotenuse": lambda x: torch.hypot(x, x + 3),
    "sampled image": lambda x: F.grid_sample(x, x[:, :2].movedim(1, 3).tanh(), align_corners=False),
    "convolution of volumes": lambda x: F.conv3d(x[:, None], x[:1, :3, :3, :3][None].repeat(2, 1, 1, 1, 1)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
}


class Op(torch.nn.Module):  # type: ignore[misc]
    """An op of a parameter."""

    def __init__(self, op: Callable[[Any], Any]) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.randn(4, 6, 8, 8, dtype=torch.float64))
        self.op = op

    def forward(self) -> Any:
        return self.op(self.x)


def weighted(module: Any) -> Any:
    result = module()
    if not result.dim():
        return result
    return (result * torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)).sum()


@pytest.mark.parametrize("name", OPS)
def test_gradients_are_those_of_torch(name: str) -> None:
    torch.manual_seed(4)
    module = Op(OPS[name])
    program = sw.from_torch(module, (), train=weighted)
    value, gradients = (
        program.shard({"data": 2, "model": 2}, {"x": "data,model,-,-"}).partition().compile(trial=False)()
    )
    expected = weighted(module)
    expected.backward()
    torch.testing.assert_close(value, expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradients["x"], module.x.grad, rtol=1e-9, atol=1e-9)


class _Numbers(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, i: Any) -> Any:
        left = (
            x[[-1]],
            x[:, torch.tensor([-1, 0])],
            x.take(torch.tensor([-1, 3])),
            i % 3,
            i % -3,
            7 % i,
            i.fmod(-3),
            x % 1.5,
            x.fmod(-1.5),
        )
        return *left, x.isfinite(), x == x, x != x, (i > 0) != (i > 2)


def test_integers_signs_and_what_is_no_number() -> None:
    x = torch.tensor([[-2.5, float("nan"), 1e30, -7.25], [float("inf"), -0.5, 3.0, -float("inf")]])
    i = torch.tensor([[-7, 5, -1, 8], [3, -3, 100, -100]])
    program = sw.from_torch(_Numbers(), (x, i))
    given = {"x": "data,model", "i": "data,model"}
    results = program.shard({"data": 2, "model": 2}, given).partition().compile(trial=False)(x, i)
    for result, expected in zip(results, _Numbers()(x, i), strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True)


class _Places(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, rows: Any, i: Any, small: Any) -> Any:
        order = (
            *x.sort(dim=1, stable=True),
            *x.sort(dim=0, descending=True, stable=True),
            x.argsort(dim=1, stable=True),
            x.argsort(dim=0, descending=True, stable=True),
        )
        found = (
            torch.searchsorted(rows, x),
            torch.searchsorted(rows, x, side="right", out_int32=True),
            torch.searchsorted(rows[0], x[0, 0], right=True),
            torch.searchsorted(rows[0], 0.5),
            torch.searchsorted(x, rows, sorter=x.argsort(1)),
            torch.bucketize(x, rows[1]),
            torch.bucketize(0.5, rows[1], right=True),
        )
        shifted = (
            i << 2,
            i << (small % 70),
            1 << (small % 40),
            i >> 3,
            i >> (small % 70),
            small << 1,
            small >> small % 3,
        )
        return *order, *found, *shifted, i.scatter_reduce(1, small.long() % 4, i, "sum"), i.unfold(0, 2, 1)


def test_ties_places_and_bits() -> None:
    torch.manual_seed(7)
    x = (torch.randn(4, 16) * 2).round()
    i, small = torch.randint(-(2**40), 2**40, (4, 6)), torch.arange(24, dtype=torch.int32).view(4, 6) * 3
    arguments = (x, x.sort(1).values, i, small)
    program = sw.from_torch(_Places(), arguments)
    given = dict.fromkeys(program.arguments, "data,model")
    results = program.shard({"data": 2, "model": 2}, given).partition().compile(trial=False)(*arguments)
    for result, expected in zip(results, _Places()(*arguments), strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
