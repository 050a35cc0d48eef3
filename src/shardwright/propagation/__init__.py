"""Sharding propagation: from a few annotations to the sharding of every tensor.

`propagate` gives what the C++ Shardy of the pinned jaxlib gives; README.md says how and why.
"""

from shardwright.propagation.pipeline import propagate

__all__ = ["propagate"]
