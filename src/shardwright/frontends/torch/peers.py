"""Whether PyTorch and torch-mlir are there, which are an extra."""

from __future__ import annotations

import importlib
from typing import Any

from shardwright.errors import ShardingError

__all__ = ["torch_alone", "torch_and_mlir"]


def torch_and_mlir() -> tuple[Any, Any]:
    """The modules `torch` and `torch_mlir.fx`.

    Raises:
        ShardingError: one of them cannot be imported.
    """
    needed = "PyTorch programs need torch and torch-mlir, and they cannot be imported"
    return _imported("torch", needed), _imported("torch_mlir.fx", needed)


def torch_alone() -> Any:
    """The module `torch`, with its `torch.distributed.tensor`.

    Raises:
        ShardingError: it cannot be imported.
    """
    needed = "to lay out a module needs torch with torch.distributed, and it cannot be imported"
    _imported("torch.distributed.tensor", needed)
    return importlib.import_module("torch")


def _imported(name: str, needed: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ShardingError(
            needed, cause=str(error).partition("\n")[0], remedy="pip install 'shardwright[torch]'"
        ) from None
