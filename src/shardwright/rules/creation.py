"""Ops that make values of nothing. They have no rule: there is nothing to connect."""

from __future__ import annotations

from shardwright.rules.facts import OpFacts, declare

__all__: list[str] = []

declare(
    [f"{dialect}.constant" for dialect in ("stablehlo", "sdy", "mhlo", "chlo", "arith", "complex", "func")],
    OpFacts(literal=True),
)
declare(["stablehlo.constant"], OpFacts(typed=True))
declare(["stablehlo.iota"], OpFacts(computed_where_read=True, nonnegative=True))
declare(["stablehlo.constant", "sdy.constant", "stablehlo.iota"], OpFacts(constant=True))
