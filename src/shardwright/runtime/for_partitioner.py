"""Per-device modules as XLA's partitioner takes them: it sees those for GPUs and TPUs, and those within JAX's own."""

from __future__ import annotations

from collections.abc import Collection

from shardwright.ir.context import ir
from shardwright.runtime.apart import take_apart
from shardwright.runtime.gpus import GPU_PLATFORMS
from shardwright.runtime.high_parts import take_high_parts
from shardwright.runtime.own_fills import fill_for_each_loop
from shardwright.runtime.spelled import spell_groups
from shardwright.runtime.unit_dims import drop_unit_dims

__all__ = ["write_for_partitioner"]


def write_for_partitioner(module: ir.Module, platforms: Collection[str]) -> None:
    """Write otherwise what is not taken there, in place: groups of collectives, collectives of several tensors, and
    high halves of products; and what compilers make less of: dimensions of size 1, and, on GPUs, what several loops
    begin with.

    Arguments:
        module: The module.
        platforms: What it is compiled for, as JAX calls it.
    """
    spell_groups(module)
    take_apart(module)
    take_high_parts(module)
    drop_unit_dims(module)
    if not GPU_PLATFORMS.isdisjoint(platforms):
        fill_for_each_loop(module)
