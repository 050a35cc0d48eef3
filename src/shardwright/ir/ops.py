"""What ops have where: computations on scalars, functions that they call, shardings of their results."""

from __future__ import annotations

__all__ = ["BODY_OPS", "CALLS", "SHARDING_ATTRIBUTES"]

BODY_OPS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "reduce",
        "scatter",
        "sort",
        "map",
        "reduce_window",
        "select_and_scatter",
        "all_reduce",
        "collective_reduce",
        "reduce_scatter",
    )
)
"""Ops whose regions compute on scalars (or on single elements) and belong to the signature."""

SHARDING_ATTRIBUTES = {
    "sdy.sharding_constraint": "sharding",
    "sdy.reshard": "sharding",
    "sdy.data_flow_edge": "sharding",
    "sdy.all_gather": "out_sharding",
    "sdy.all_slice": "out_sharding",
    "sdy.all_to_all": "out_sharding",
    "sdy.all_reduce": "out_sharding",
    "sdy.reduce_scatter": "out_sharding",
    "sdy.collective_permute": "out_sharding",
    "sdy.replicated_to_unreduced": "out_sharding",
    "sdy.sharded_to_unreduced": "out_sharding",
    "sdy.manual_computation": "out_shardings",
    "sdy.named_computation": "out_shardings",
}
"""Where ops of the sdy dialect keep the sharding of their results; all others have `sdy.sharding`."""

CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Ops that call a function, and their attribute that names it."""
