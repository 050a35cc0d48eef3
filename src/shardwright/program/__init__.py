"""What users hold: a `Program`, the `Plan` of its shardings, and the `Spmd` program that every device runs.

    program = sw.load("step.mlir")                      # or sw.from_jax(train_step, params, batch)
    plan = program.shard(sw.Mesh(data=2, model=4), args={"batch": sw.P("data")})
    spmd = plan.partition()
    spmd.verify().ok

Each is a value: `shard` can be called again with other shardings, `partition` again after that. None changes, but for
its clock, which goes on counting; all can be pickled, to go on in another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardwright.lazy import names_at

if TYPE_CHECKING:
    from shardwright.program.from_torch import from_torch
    from shardwright.program.jitted import Jitted, jit
    from shardwright.program.one_op import interface
    from shardwright.program.ordering import axis_orders
    from shardwright.program.parallel import parallelize
    from shardwright.program.per_device import PerDevice
    from shardwright.program.program import Plan, Program, Spmd, from_jax, load
    from shardwright.program.tuning import tune

__all__ = [
    "Jitted",
    "PerDevice",
    "Plan",
    "Program",
    "axis_orders",
    "from_jax",
    "from_torch",
    "interface",
    "jit",
    "load",
    "parallelize",
    "Spmd",
    "tune",
]

_HOMES = {
    "Jitted": "shardwright.program.jitted:Jitted",
    "PerDevice": "shardwright.program.per_device:PerDevice",
    "Plan": "shardwright.program.program:Plan",
    "Program": "shardwright.program.program:Program",
    "axis_orders": "shardwright.program.ordering:axis_orders",
    "from_jax": "shardwright.program.program:from_jax",
    "from_torch": "shardwright.program.from_torch:from_torch",
    "interface": "shardwright.program.one_op:interface",
    "jit": "shardwright.program.jitted:jit",
    "load": "shardwright.program.program:load",
    "parallelize": "shardwright.program.parallel:parallelize",
    "Spmd": "shardwright.program.program:Spmd",
    "tune": "shardwright.program.tuning:tune",
}
"""Name → where it is defined: loaded when it is asked for."""

if not TYPE_CHECKING:
    __getattr__ = names_at(__name__, _HOMES)
