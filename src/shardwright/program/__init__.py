"""What users hold: a `Program`, the `Plan` of its shardings, and the `Spmd` program that every device runs.

    program = sw.load("step.mlir")                      # or sw.from_jax(train_step, params, batch)
    plan = program.shard(sw.Mesh(data=2, model=4), args={"batch": sw.P("data")})
    spmd = plan.partition()
    spmd.verify().ok

Each is a value: `shard` can be called again with other shardings, `partition` again after that.
"""

from shardwright.program.plan import Plan
from shardwright.program.program import Program, from_jax, load
from shardwright.program.spmd import STAGES, Spmd

__all__ = ["STAGES", "Plan", "Program", "Spmd", "from_jax", "load"]
