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
