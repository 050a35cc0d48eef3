"""The shardings of all arguments or results of a function together, as its calls say them."""

from __future__ import annotations

from typing import Any

from shardwright.mesh import Mesh
from shardwright.passes.attached import Shardings, static_shape, types_of
from shardwright.sharding import TensorSharding, replicated

__all__ = ["all_shardings", "unsaid"]


def all_shardings(function: Any, which: str, shardings: Shardings) -> tuple[TensorSharding, ...] | None:
    """The shardings of all arguments or of all results, or `None` where none is split over a mesh.

    One that has none of its own is open, on the first mesh of the others.
    """
    types = types_of(function, which)
    said = shardings.of_rows(function, which)
    mesh = next((sharding.mesh for sharding in said if sharding is not None and not sharding.mesh.is_maximal), None)
    if mesh is None:
        return None
    return tuple(
        unsaid(mesh, its, open=True) if sharding is None else sharding
        for sharding, its in zip(said, types, strict=True)
    )


def unsaid(mesh: Mesh, type: Any, *, open: bool) -> TensorSharding:
    """The sharding of a value of this type that is split along nothing; rank 0 for what is no tensor."""
    return replicated(mesh, len(static_shape(type) or ()), open=open)
