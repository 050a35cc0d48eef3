"""Dimensions that do not divide by their shards, made ones that do: a program whose tensors are padded.

`pad_uneven` does a whole graph, before anything of it is decided; README.md of the room above says why so.
"""

from shardwright.partition.padding.boundary import is_kept_uneven, with_stated_boundary
from shardwright.partition.padding.program import Padded, pad_uneven

__all__ = ["Padded", "is_kept_uneven", "pad_uneven", "with_stated_boundary"]
