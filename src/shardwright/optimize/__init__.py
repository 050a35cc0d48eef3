"""Explicit programs made better: fewer, smaller and later collectives, whoever wrote them."""

import shardwright.optimize.passes  # noqa: F401  (registers them)
from shardwright.optimize.driver import Optimized, optimize
from shardwright.optimize.hoisting import HOISTING
from shardwright.optimize.improvement import Improvement
from shardwright.optimize.registry import Optimization, optimizations

__all__ = ["HOISTING", "Improvement", "Optimization", "Optimized", "optimize", "optimizations"]
