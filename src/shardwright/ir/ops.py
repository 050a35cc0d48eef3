"""What ops are by their names as far as reading them takes it; what else is known of them `rules` declares."""

from __future__ import annotations

__all__ = [
    "BODY_OPS",
    "CALLS",
    "COMPUTATIONS",
    "DATA_FLOW_OPS",
    "REDUCTIONS",
    "RETURNS",
    "SHARDING_ATTRIBUTES",
]

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

RETURNS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
"""Ops that end a region: what they read are its results."""

COMPUTATIONS = frozenset({"sdy.manual_computation", "sdy.named_computation"})
"""Ops of the sdy dialect that hold a program, and state shardings at its boundary."""

DATA_FLOW_OPS = COMPUTATIONS | {"stablehlo.while", "stablehlo.case", "stablehlo.optimization_barrier"}
"""Ops across whose boundaries shardings flow along edges, and not by a rule."""

REDUCTIONS = {
    "sum": "stablehlo.add",
    "max": "stablehlo.maximum",
    "min": "stablehlo.minimum",
    "product": "stablehlo.multiply",
    "and": "stablehlo.and",
    "or": "stablehlo.or",
    "xor": "stablehlo.xor",
}
"""Kinds of reductions, and the op that combines two elements by each."""
