"""Control flow, what ends it, and the host. They have no rule: data-flow edges connect what goes in and out."""

from __future__ import annotations

from shardwright.ir.ops import RETURNS
from shardwright.rules.facts import OpFacts, declare, names

__all__: list[str] = []

declare(["stablehlo.optimization_barrier"], OpFacts(moves=True, shares_buffer=True))
declare(names("stablehlo", "case composite get_tuple_element if recv while"), OpFacts(exact=True))
declare(["stablehlo.composite"], OpFacts(typed=True))
declare(RETURNS, OpFacts(effects=True))
declare(["stablehlo.infeed"], OpFacts(effects=True, host=True, refused="it reads from the host"))
declare(["stablehlo.outfeed"], OpFacts(effects=True, host=True, refused="it writes to the host"))
declare(
    ["stablehlo.recv", "stablehlo.send"],
    OpFacts(effects=True, host=True, refused="it talks to the host or another program"),
)
