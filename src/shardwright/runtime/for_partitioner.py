"""Per-device modules as XLA's partitioner takes them: it sees those for GPUs and TPUs, and those within JAX's own."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.runtime.apart import take_apart
from shardwright.runtime.high_parts import take_high_parts
from shardwright.runtime.spelled import spell_groups
from shardwright.runtime.unit_dims import drop_unit_dims

__all__ = ["write_for_partitioner"]


def write_for_partitioner(module: ir.Module) -> None:
    """Write otherwise what is not taken there, in place: groups of collectives, collectives of several tensors, and
    high halves of products; and what schedulers make less of, dimensions of size 1.
    """
    spell_groups(module)
    take_apart(module)
    take_high_parts(module)
    drop_unit_dims(module)
