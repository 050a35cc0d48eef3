"""Collectives one behind the other that are one, or fewer, or smaller.

    all_reduce{y}(all_reduce{x}(a))   →  all_reduce{x, y}(a)
    all_slice(all_reduce(a))          →  reduce_scatter(a)
    all_slice(all_gather(a))          →  a, an all_gather of less, or an all_to_all
    all_gather{x}(all_gather{y}(a))   →  all_gather{y, x}(a)

Legal since collectives between ops leave the data what it is: any chain of steps from the first layout to the last one
is as good, and the planner gives the cheapest (`reshard.plan`). Contributions that await different kinds of reduction
are reduced in their order, which the algebra of steps keeps (`steps.AllReduce.apply`). Where floating-point sums keep
their order, the new chain has to reduce along the same axes at once as the old one: two all_reduces of a sum stay two,
those of a maximum and of whole numbers become one; a reduce_scatter adds up what the all_reduce did.

What others read of the values in between is made as before; then mostly nothing is won, and all stays.

Sources: document 003, "AllReduce Folder Pass", and its simplifications of local_split; `shard-simplify` of MLIR.
"""

from __future__ import annotations

from shardwright.ir.graph import Op
from shardwright.ir.ops import COLLECTIVES
from shardwright.optimize.chains import origins, shortened
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.registry import optimization
from shardwright.steps import AllGather, AllReduce

__all__ = ["flattened", "folded", "sliced"]

_FOLD, _SLICE, _FLATTEN = "all-reduce-fold", "collective-slice", "flatten-collectives"


@optimization(_FOLD, "Makes all_reduces one behind the other one over all their axes.", on=["sdy.all_reduce"])
def folded(op: Op, program: ExplicitProgram) -> bool:
    """Reduce once along the axes of several all_reduces."""
    chains = [origin for origin in origins(op, program) if len(origin.steps) > 1]
    return any(
        shortened(_FOLD, op, program, origin, f"{len(origin.steps)} all_reduces are one")
        for origin in chains
        if all(isinstance(step, AllReduce) for step in origin.steps)
    )


@optimization(_SLICE, "Makes a slice of what was reduced or gathered right away.", on=["sdy.all_slice"])
def sliced(op: Op, program: ExplicitProgram) -> bool:
    """Bring what a collective was made of to a slice of its result at once."""
    for value, steps in origins(op, program):
        if len(steps) == 2 and isinstance(steps[0], AllReduce | AllGather):
            what = "reduced" if isinstance(steps[0], AllReduce) else "gathered"
            (origin,) = [one for one in origins(op, program) if one.value == value]
            return shortened(_SLICE, op, program, origin, f"only a slice of what is {what} is read")
    return False


@optimization(_FLATTEN, "Makes collectives one behind the other the cheapest chain of them.", on=COLLECTIVES)
def flattened(op: Op, program: ExplicitProgram) -> bool:
    """Replace what leads to a collective's result, the longest chain first."""
    chains = [origin for origin in origins(op, program) if len(origin.steps) > 1]
    return any(
        shortened(_FLATTEN, op, program, origin, f"{len(origin.steps)} collectives are a chain that costs more")
        for origin in reversed(chains)
    )
