"""A sharding compiler for tensor programs: propagate, partition, run and verify.

    import shardwright as sw

    program = sw.load("step.mlir")  # or sw.from_jax(train_step, params, batch)
    plan = program.shard(sw.Mesh(data=2, model=4), args={"batch": sw.P("data")})
    spmd = plan.partition()
    spmd.verify().ok

These names are all there is to import; what they hold is documented where it is defined. Each is loaded when it is
first asked for, so that importing this takes no time: MLIR alone takes a fifth of a second, jax most of one.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # `python -m shardwright`: modules beside programs are not ours
    sys.path.append(sys.path.pop(0))

from typing import TYPE_CHECKING

from shardwright.lazy import names_at, provide

if TYPE_CHECKING:
    from jax.sharding import PartitionSpec as P

    from shardwright.checkpoint import load_arrays, save_arrays
    from shardwright.cost.hardware.presets import hardware
    from shardwright.errors import Diagnostic, ShardingError
    from shardwright.export import load_exported
    from shardwright.frontends.convert import convert
    from shardwright.memo import Session
    from shardwright.mesh import Mesh
    from shardwright.notation.registry import parse_text as parse_sharding
    from shardwright.plans.compare import compare_plans
    from shardwright.plans.load import load_plan
    from shardwright.plans.saved import SavedPlan
    from shardwright.program import (
        PerDevice,
        Plan,
        Program,
        Spmd,
        axis_orders,
        from_jax,
        from_torch,
        interface,
        jit,
        load,
        parallelize,
        tune,
    )
    from shardwright.report.notebook import show
    from shardwright.rules.interface import sharding_interface
    from shardwright.rules.registry import forget_rule, rule
    from shardwright.runtime.shared import gather
    from shardwright.sharding import TensorSharding

__all__ = [
    "Diagnostic",
    "Mesh",
    "P",
    "PerDevice",
    "Plan",
    "Program",
    "SavedPlan",
    "Session",
    "ShardingError",
    "Spmd",
    "TensorSharding",
    "axis_orders",
    "compare_plans",
    "convert",
    "forget_rule",
    "from_jax",
    "from_torch",
    "gather",
    "hardware",
    "interface",
    "jit",
    "load",
    "load_arrays",
    "load_plan",
    "load_exported",
    "parallelize",
    "parse_sharding",
    "rule",
    "save_arrays",
    "sharding_interface",
    "show",
    "tune",
]

_HOMES = {
    "Diagnostic": "shardwright.errors:Diagnostic",
    "Mesh": "shardwright.mesh:Mesh",
    "P": "jax.sharding:PartitionSpec",
    "PerDevice": "shardwright.program:PerDevice",
    "Plan": "shardwright.program:Plan",
    "Program": "shardwright.program:Program",
    "SavedPlan": "shardwright.plans.saved:SavedPlan",
    "Session": "shardwright.memo:Session",
    "ShardingError": "shardwright.errors:ShardingError",
    "Spmd": "shardwright.program:Spmd",
    "TensorSharding": "shardwright.sharding:TensorSharding",
    "axis_orders": "shardwright.program:axis_orders",
    "compare_plans": "shardwright.plans.compare:compare_plans",
    "convert": "shardwright.frontends.convert:convert",
    "forget_rule": "shardwright.rules.registry:forget_rule",
    "from_jax": "shardwright.program:from_jax",
    "from_torch": "shardwright.program:from_torch",
    "gather": "shardwright.runtime.shared:gather",
    "hardware": "shardwright.cost.hardware.presets:hardware",
    "interface": "shardwright.program:interface",
    "jit": "shardwright.program:jit",
    "load": "shardwright.program:load",
    "load_exported": "shardwright.export:load_exported",
    "load_arrays": "shardwright.checkpoint:load_arrays",
    "load_plan": "shardwright.plans.load:load_plan",
    "parallelize": "shardwright.program:parallelize",
    "parse_sharding": "shardwright.notation.registry:parse_text",
    "rule": "shardwright.rules.registry:rule",
    "save_arrays": "shardwright.checkpoint:save_arrays",
    "sharding_interface": "shardwright.rules.interface:sharding_interface",
    "show": "shardwright.report.notebook:show",
    "tune": "shardwright.program:tune",
}
"""Public name → where it is defined, for those who run this; the imports above say the same to those who read it."""


if not TYPE_CHECKING:  # to a type checker this would mean that any name can be imported
    __getattr__ = names_at(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names as well, loaded or not."""
    return sorted({*globals(), *__all__})


provide("sharding as text", "shardwright.notation.registry:print_text")
provide("sharding as picture", "shardwright.report.notebook:sharding_svg")
