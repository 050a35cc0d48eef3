"""Ops of the sdy dialect that say where data lies, or move it there; constraints alone have a rule."""

from __future__ import annotations

from shardwright.ir.ops import LAYOUTS
from shardwright.rules.facts import Flow, OpFacts, declare, names

__all__: list[str] = []

declare(LAYOUTS, OpFacts(moves=True))
declare(names("sdy", "sharding_constraint reshard propagation_barrier"), OpFacts(elementwise=True))
declare(["sdy.data_flow_edge"], OpFacts(flow=Flow.PASS_THROUGH))
declare(
    names(
        "sdy",
        "all_gather all_reduce all_slice all_to_all collective_permute data_flow_edge func_data_flow_edge",
        "reduce_scatter sharding_constraint sharding_group",
    ),
    OpFacts(effects=True),
)
