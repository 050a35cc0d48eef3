"""The program for one device: what a sharded program's results are held against."""

from __future__ import annotations

from shardwright.frontends.load import Source
from shardwright.ir.carriers import CARRIED_CONSTRAINT
from shardwright.ir.context import load_module, module_text
from shardwright.notation import modules
from shardwright.runtime.unsharded import unsharded

__all__ = ["unsharded_text"]

_RUNS_AS_IT_IS = frozenset({"sdy.sharding_constraint", "sdy.sharding_group"})


def unsharded_text(source: Source) -> str:
    """The program as it was given, untouched wherever XLA can run that on one device.

    A module of a later stage holds resharding, which one device has no use for: it is written anew without.

    Raises:
        ShardingError: a manual computation, which has no meaning on one device.
    """
    content = source.content
    carries = isinstance(content, str) and CARRIED_CONSTRAINT in content
    if not carries and all(op.name in _RUNS_AS_IT_IS for op in source.graph.walk() if op.name.startswith("sdy.")):
        return content if isinstance(content, str) else module_text(load_module(content, source.name))
    return module_text(modules.write(unsharded(source.graph), shardings=False))
