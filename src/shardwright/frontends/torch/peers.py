"""Whether PyTorch and torch-mlir are there, which are an extra."""

from __future__ import annotations

import importlib
from typing import Any

from shardwright.errors import ShardingError

__all__ = ["torch_and_mlir"]


def torch_and_mlir() -> tuple[Any, Any]:
    """The modules `torch` and `torch_mlir.fx`.

    Raises:
        ShardingError: one of them cannot be imported.
    """
    try:
        return importlib.import_module("torch"), importlib.import_module("torch_mlir.fx")
    except ImportError as error:
        raise ShardingError(
            "PyTorch programs need torch and torch-mlir, and they cannot be imported",
            cause=str(error).partition("\n")[0],
            remedy="pip install 'shardwright[torch]'",
        ) from None
