"""Small models of the kinds that people train."""

from __future__ import annotations

from typing import Any

from tests.frontends.torch.installed import torch

F = torch.nn.functional


class Perceptron(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """Two layers."""

    def __init__(self, sizes: tuple[int, int, int] = (16, 64, 8)) -> None:
        super().__init__()
        self.up = torch.nn.Linear(sizes[0], sizes[1])
        self.down = torch.nn.Linear(sizes[1], sizes[2])

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.down(torch.relu(self.up(x))) * scale


class Attention(torch.nn.Module):  # type: ignore[misc]
    """Causal or full attention by torch's fused product."""

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class SplitAttention(torch.nn.Module):  # type: ignore[misc]
    """Causal attention whose queries, keys and values have weights of their own, so that heads can be split."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = (one(x).view(batch, length, self.heads, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(torch.nn.Module):  # type: ignore[misc]
    """A layer of a transformer."""

    def __init__(self, width: int, heads: int, is_causal: bool, is_split: bool = False) -> None:
        super().__init__()
        self.ln1, self.ln2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attn = SplitAttention(width, heads) if is_split else Attention(width, heads, is_causal)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(torch.nn.Module):  # type: ignore[misc]
    """A decoder whose embedding is tied to its head."""

    def __init__(
        self,
        vocabulary: int = 64,
        width: int = 32,
        heads: int = 4,
        length: int = 16,
        layers: int = 2,
        is_split: bool = False,
    ) -> None:
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList([Block(width, heads, True, is_split) for _ in range(layers)])
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Any) -> Any:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ConvNet(torch.nn.Module):  # type: ignore[misc]
    """Convolutions with batch norm, whose running statistics are buffers that training writes."""

    def __init__(self, channels: int = 16, classes: int = 8) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, channels, 3, padding=1)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.bn2 = torch.nn.BatchNorm2d(2 * channels)
        self.head = torch.nn.Linear(2 * channels, classes)

    def forward(self, images: Any) -> Any:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 2)
        x = F.relu_(self.bn2(self.conv2(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class ViT(torch.nn.Module):  # type: ignore[misc]
    """Patches of an image through an encoder."""

    def __init__(self, size: int = 16, patch: int = 4, width: int = 32, heads: int = 4, classes: int = 8) -> None:
        super().__init__()
        self.patch = torch.nn.Conv2d(3, width, patch, stride=patch)
        self.cls = torch.nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = torch.nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = torch.nn.ModuleList([Block(width, heads, False) for _ in range(2)])
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, images: Any) -> Any:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class LSTM(torch.nn.Module):  # type: ignore[misc]
    """A recurrent classifier of sequences."""

    def __init__(self, width: int = 8, hidden: int = 16, classes: int = 8) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(width, hidden, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, sequence: Any) -> Any:
        out, _ = self.lstm(sequence)
        return self.head(out[:, -1])


class MoE(torch.nn.Module):  # type: ignore[misc]
    """Experts of which each token takes two, as products over all experts, weighted."""

    def __init__(self, width: int = 16, hidden: int = 32, experts: int = 4, classes: int = 8) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(width, experts, bias=False)
        self.up = torch.nn.Parameter(torch.randn(experts, width, hidden) * 0.1)
        self.down = torch.nn.Parameter(torch.randn(experts, hidden, width) * 0.1)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, tokens: Any) -> Any:
        values, chosen = torch.topk(torch.softmax(self.gate(tokens), -1), 2)
        weights = torch.zeros_like(self.gate(tokens)).scatter(-1, chosen, values / values.sum(-1, keepdim=True))
        hidden = F.silu(torch.einsum("bd,edh->beh", tokens, self.up))
        return self.head(tokens + torch.einsum("beh,ehd,be->bd", hidden, self.down, weights))
