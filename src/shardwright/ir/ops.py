"""What ops are by their names as far as reading them takes it; what else is known of them `rules` declares."""

from __future__ import annotations

from shardwright.steps import MOVING, NAMED

__all__ = [
    "BODY_OPS",
    "CALLS",
    "COLLECTIVES",
    "COMPUTATIONS",
    "DATA_FLOW_OPS",
    "LAYOUTS",
    "MANUAL",
    "OWN_COLLECTIVES",
    "DEVICE_OPS",
    "GRID_OPS",
    "INDEXING_MAPS",
    "REDUCTIONS",
    "RETURNS",
    "SHARDING_ATTRIBUTES",
    "STEPS",
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
"""Ops whose regions compute on scalars (or on single elements) and belong to the signature: see `handles.has_body`."""

INDEXING_MAPS = "indexing_maps"
"""The attribute that makes an op describe itself, as those of `linalg` do: see `rules.self_described`."""

COLLECTIVES = {f"sdy.{name}": step for name, step in MOVING.items()}
"""The ops between others that move data in an explicit program, each with the step that it takes."""

OWN_COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "reduce_scatter",
    )
)
"""Collectives that a program for one device states itself: see `partition.own_collectives`."""

STEPS = {f"sdy.{name}": step for name, step in NAMED.items()}
"""All ops of the sdy dialect that take one step from layout to layout."""

SHARDING_ATTRIBUTES = {
    **dict.fromkeys(STEPS, "out_sharding"),
    "sdy.sharding_constraint": "sharding",
    "sdy.reshard": "sharding",
    "sdy.data_flow_edge": "sharding",
    "sdy.manual_computation": "out_shardings",
    "sdy.named_computation": "out_shardings",
}
"""Where ops of the sdy dialect keep the sharding of their results; all others have `sdy.sharding`."""

CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Ops that call a function, and their attribute that names it."""

RETURNS = frozenset({"func.return", "stablehlo.return", "sdy.return"})
"""Ops that end a region: what they read are its results."""

MANUAL = "sdy.manual_computation"
"""The op that holds a program for one device."""

COMPUTATIONS = frozenset({MANUAL, "sdy.named_computation"})
"""Ops of the sdy dialect that hold a program, and state shardings at its boundary."""

LAYOUTS = frozenset(SHARDING_ATTRIBUTES) - COMPUTATIONS | {"sdy.propagation_barrier"}
"""Ops of the sdy dialect whose result is their operand, perhaps in another layout."""

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
"""Kinds of reductions, and the op that combines two elements by each. They have identities: one device can contribute a
value, and the others nothing.
"""

DEVICE_OPS = OWN_COLLECTIVES | {"stablehlo.collective_reduce", "stablehlo.partition_id"}
"""Ops of StableHLO that have no meaning on one device."""

GRID_OPS = frozenset(
    {
        "mesh.idx",
        "mesh.size",
        "shard.all_gather",
        "shard.all_reduce",
        "shard.all_slice",
        "shard.all_to_all",
        "shard.broadcast",
        "shard.gather",
        "shard.grid_shape",
        "shard.neighbors_linear_indices",
        "shard.process_linear_index",
        "shard.process_multi_index",
        "shard.recv",
        "shard.reduce",
        "shard.reduce_scatter",
        "shard.scatter",
        "shard.send",
        "shard.shard_shape",
        "shard.shift",
        "shard.update_halo",
    }
)
"""Collectives and queries of a grid, which only a program for one of its devices has."""
