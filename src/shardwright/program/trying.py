"""A plan with other shardings of some arguments, and what it comes to, gone on from what is known of other trials.

Propagation is begun anew, and only ops of which something is not as in a trial before are decided on and written. What
comes out is what `plan.with_arguments(…).partition().outcome` says, number by number. Of programs of which that is not
known to hold (loops and branches, several meshes, dimensions that do not divide, …) nothing is said: these are worked
out from the beginning.
"""

from __future__ import annotations

from itertools import compress
from operator import is_not, ne
from typing import NamedTuple
from weakref import WeakKeyDictionary

from shardwright.assess.again import Assessing
from shardwright.cost.hardware import current_hardware
from shardwright.cost.outcome import Outcome
from shardwright.errors import ShardingError
from shardwright.frontends.selection import select_arguments
from shardwright.frontends.specs import sharding_of
from shardwright.ir.graph import Graph
from shardwright.memo import current_session, uncollected
from shardwright.partition.again.program import Again, partitions_again
from shardwright.partition.fewer_ops import FewerOps
from shardwright.partition.localize.pieces import CannotGoOn
from shardwright.partition.padding.sizes import is_uneven
from shardwright.program.asked import as_asked
from shardwright.program.program import Plan
from shardwright.propagation.method import method
from shardwright.propagation.variants import Variants, has_priorities, variants_of
from shardwright.sharding import TensorSharding
from shardwright.stage import TRIED_EFFORT, Stage

__all__ = ["Tried", "trying"]


class Tried(NamedTuple):
    """What a trial comes to.

    Attributes:
        before: How the first of the arguments lies in the plan that was given.
        outcome: What it comes to.
        changed: How many tensors lie otherwise than in the plan that was given.
    """

    before: TensorSharding
    outcome: Outcome
    changed: int


def trying(plan: Plan) -> Trying | None:
    """What tries other shardings of a plan in this session, if there is a way; it is kept as long as the plan is."""
    known = current_session().table(__name__).setdefault("plans", WeakKeyDictionary())
    key = current_hardware()
    of_plan = known.setdefault(plan, {})
    if key not in of_plan:
        of_plan[key] = _trying(plan)
    return of_plan[key]  # type: ignore[no-any-return]


@uncollected
def _trying(plan: Plan) -> Trying | None:
    asked = as_asked(plan.fit, None, TRIED_EFFORT, None)
    if (asked.arguments, asked.optimize) != ("split", "off"):
        return None
    if plan.strategy == "rfc" or plan.graph.stage is not Stage.PROPAGATED or not _is_plain(plan.annotated):
        return None
    variants = variants_of(plan.annotated, method(plan.strategy, conservative=plan.conservative))
    if variants is None:
        return None
    graph = variants.propagated({})
    fewer = FewerOps()
    again = partitions_again(fewer.of(graph)) if graph.shardings == plan.graph.shardings else None
    return None if again is None else Trying(plan, variants, fewer, again)


def _is_plain(annotated: Graph) -> bool:
    """Whether no sharding that users state has bounds or contributions, and all at the boundary divide."""
    if any(one.partial or one.offsets or one.halos for one in annotated.different_shardings):
        return False
    block, shardings = annotated.main.block, annotated.shardings
    stated = [(shardings[value], value) for value in block.arguments]
    stated += zip(annotated.main.result_shardings, block.terminator.operands, strict=True)
    return not any(is_uneven(one, annotated.types[value]) for one, value in stated)


class Trying:
    """Tries other shardings of the arguments of a plan."""

    def __init__(self, plan: Plan, variants: Variants, fewer: FewerOps, again: Again) -> None:
        """Nothing is known yet but the plan itself."""
        self.variants = variants
        self.fewer = fewer
        self.again = again
        self.assessing = Assessing(again)
        self.annotated = plan.annotated
        self.layouts = {name: layout.closed() for name, layout in plan.arguments.items()}
        self.source = plan.source.name
        self.graph = again.graph
        self._numbers: dict[tuple[str, ...], list[int]] = {}

    @uncollected
    def tried(self, names: tuple[str, ...], sharding: TensorSharding) -> Tried | None:
        """What another sharding of some arguments comes to; `None` where that has to be worked out from the beginning.

        Raises:
            ShardingError: no such arguments, or a sharding that does not fit them.
        """
        values = self._values(names)
        given = {value: self._given(sharding, value) for value in values}
        if not all(map(self._is_known, given, given.values())):
            return None
        graph = self.variants.propagated(given)
        outcome = self.outcome(graph)
        if outcome is None:
            return None
        others = list(map(is_not, self.graph.shardings, graph.shardings))
        pairs = compress(self.graph.shardings, others), compress(graph.shardings, others)
        return Tried(self.layouts[names[0]], outcome, sum(map(ne, *pairs)))

    @uncollected
    def outcome(self, graph: Graph) -> Outcome | None:
        """What a propagated program comes to; `None` where that has to be worked out from the beginning."""
        try:
            one = self.fewer.of(graph)
            return self.assessing.comes_to(one, self.again.partitioned(one))
        except (CannotGoOn, ShardingError):  # told in full by who works it out from the beginning
            return None

    def _values(self, names: tuple[str, ...]) -> list[int]:
        values = self._numbers.get(names)
        if values is None:
            chosen = select_arguments(self.annotated, dict.fromkeys(names), self.source)
            values = self._numbers[names] = [self.annotated.main.block.arguments[number] for number in chosen]
        return values

    def _given(self, sharding: TensorSharding, value: int) -> TensorSharding:
        return sharding_of(sharding, self.annotated.mesh, self.annotated.types[value].rank)

    def _is_known(self, value: int, sharding: TensorSharding) -> bool:
        """Whether nothing else is to be known of an argument than how it lies now."""
        is_plain = not (sharding.partial or sharding.offsets or sharding.halos or has_priorities(sharding))
        is_plain = is_plain and not is_uneven(sharding, self.annotated.types[value])
        return is_plain and self.variants.may_change(value)
