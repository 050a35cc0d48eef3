"""Shardings of values within a program."""

from __future__ import annotations

from tests.graphs.families.moves import has_rank
from tests.graphs.scope import Scope, step
from tests.graphs.values import Value


@step("constraint", has_rank, weight=4)
def constraint(scope: Scope, v: Value) -> None:
    """Any layout; contributions to a sum where the type has sums."""
    if not scope.only_smooth:
        sharding = scope.writer.sharding(v)
        scope.emit(f"constrain({v}, {sharding!r})", v.range, reference=f"{v}")
