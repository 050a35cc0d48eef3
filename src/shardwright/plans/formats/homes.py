"""Where the formats of plans of other frameworks are defined; to know what they are called loads none of them."""

from __future__ import annotations

__all__ = ["HOMES"]

HOMES = {
    "dtensor": "shardwright.plans.formats.dtensor:FORMAT",
    "maxtext": "shardwright.plans.formats.maxtext:FORMAT",
    "torchtitan": "shardwright.plans.formats.torchtitan:FORMAT",
    "tp_plan": "shardwright.plans.formats.tp_plan:FORMAT",
}
"""Name → where the format is defined, in the order in which values are tried."""
