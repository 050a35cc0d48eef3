"""Arrays on disk: written by all processes, each its own shards, and read by any plan, each process its own slices."""

from shardwright.checkpoint.load import load_arrays
from shardwright.checkpoint.save import save_arrays

__all__ = ["load_arrays", "save_arrays"]
