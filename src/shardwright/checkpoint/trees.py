"""Pytrees of arrays as arrays by name, as JAX prints their place: `params/w1`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from shardwright.errors import ShardingError
from shardwright.ir.locations import pytree_path

__all__ = ["named_leaves"]


def named_leaves(tree: Any) -> tuple[dict[str, Any], Any]:
    """The leaves of a pytree by name, and its structure.

    Raises:
        ShardingError: two leaves are called alike.
    """
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves: dict[str, Any] = {}
    for path, leaf in pairs:
        name = _name(path)
        if name in leaves:
            raise ShardingError(
                f"two arrays are called {name!r}",
                cause="names are made of the keys on the way to an array, joined by /",
                remedy="call one of them otherwise",
            )
        leaves[name] = leaf
    return leaves, structure


def _name(path: Sequence[Any]) -> str:
    if all(isinstance(key, jax.tree_util.DictKey) and isinstance(key.key, str) for key in path):
        return "/".join(key.key for key in path)  # a dict by name, as it comes: `model.layers.0.weight`
    return pytree_path(jax.tree_util.keystr(tuple(path)))
