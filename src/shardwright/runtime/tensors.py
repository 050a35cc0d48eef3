"""What a program takes, or what it gives, as those see it who call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from shardwright.ir.types import TensorType
from shardwright.sharding import TensorSharding

__all__ = ["Tensors"]

Tensors: TypeAlias = tuple[dict[str, TensorType], Sequence[TensorSharding]]
"""The global types of arguments or results by name, and how each lies."""
