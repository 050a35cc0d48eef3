"""Explicit programs made better: fewer, smaller and later collectives, whoever wrote them."""

import shardwright.optimize.passes  # noqa: F401  (registers them)
from shardwright.optimize.driver import Optimized, optimize
from shardwright.optimize.improvement import Improvement
from shardwright.optimize.registry import Optimization, optimizations

__all__ = ["Improvement", "Optimization", "Optimized", "optimize", "optimizations"]
