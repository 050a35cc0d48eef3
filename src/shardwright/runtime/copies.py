"""Copies of one value that differ between devices, put together so that they can be judged as an output is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwright.runtime.arrays import Array
from shardwright.sharding import TensorSharding

__all__ = ["furthest_copies"]


def furthest_copies(shards: Sequence[Array], sharding: TensorSharding, whole: Array) -> Array:
    """The global array of those copies that are furthest from `whole`, element by element.

    Arguments:
        shards: What each position of the mesh holds.
        sharding: How the array lies, partial along no axis.
        whole: The global array of the first copies.
    """
    furthest = whole.copy()
    wide = np.complex128 if whole.dtype.kind == "c" else np.float64
    distance = np.zeros(whole.shape)
    for position, shard in enumerate(shards):
        where = sharding.device_slice(whole.shape, position)
        piece = shard[tuple(slice(0, s.stop - s.start) for s in where)]
        with np.errstate(invalid="ignore", over="ignore"):
            moved = np.abs(piece.astype(wide) - whole[where].astype(wide))
        differs = piece != whole[where]
        moved = np.where(np.isnan(moved), np.where(differs, np.inf, 0.0), moved)
        moved = np.where(differs & np.isnan(piece.astype(wide)) & np.isnan(whole[where].astype(wide)), 0.0, moved)
        further = moved > distance[where]
        furthest[where] = np.where(further, piece, furthest[where])
        distance[where] = np.where(further, moved, distance[where])
    return furthest
