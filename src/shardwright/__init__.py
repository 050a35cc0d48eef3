"""A sharding compiler for tensor programs: propagate, partition, run and verify.

    import shardwright as sw

    program = sw.load("step.mlir")  # or sw.from_jax(train_step, params, batch)
    plan = program.shard(sw.Mesh(data=2, model=4), args={"batch": sw.P("data")})
    spmd = plan.partition()
    spmd.verify().ok

These names are all there is to import; what they hold is documented where it is defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.convert import convert
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.notation.registry import parse_text as parse_sharding
from shardwright.per_device import PerDevice
from shardwright.program import Plan, Program, Spmd, from_jax, load
from shardwright.report.notebook import show
from shardwright.rules.registry import forget_rule, rule
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from jax.sharding import PartitionSpec as P

__all__ = [
    "Diagnostic",
    "Mesh",
    "P",
    "PerDevice",
    "Plan",
    "Program",
    "Session",
    "ShardingError",
    "Spmd",
    "TensorSharding",
    "convert",
    "forget_rule",
    "from_jax",
    "load",
    "parse_sharding",
    "rule",
    "show",
]


def __getattr__(name: str) -> Any:
    """`P` is JAX's `PartitionSpec`; importing jax takes most of a second, so it waits until somebody asks."""
    if name != "P":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jax.sharding import PartitionSpec

    return PartitionSpec
