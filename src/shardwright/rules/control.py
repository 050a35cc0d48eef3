"""Control flow, what ends it, and the host. They have no rule: data-flow edges connect what goes in and out."""

from __future__ import annotations

from shardwright.ir.ops import RETURNS
from shardwright.rules.facts import OpFacts, declare, names

__all__: list[str] = []

declare(["stablehlo.optimization_barrier"], OpFacts(moves=True))
declare(RETURNS, OpFacts(effects=True))
declare(names("stablehlo", "infeed outfeed recv send"), OpFacts(effects=True))
