"""Ops by class: those of one class have the same step table in every phase."""

from __future__ import annotations

from typing import NamedTuple

from shardwright.boundary import with_manual_axes, with_replicated, without_manual_axes
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.propagation.engine import priorities
from shardwright.propagation.engine.conservative import conservative_rule
from shardwright.propagation.engine.op_kind import Kind
from shardwright.propagation.engine.priorities import BARRIERS
from shardwright.propagation.engine.worklist import Numbers, StepTable
from shardwright.propagation.method import Method, Phase
from shardwright.propagation.working import DataFlowEdge
from shardwright.rules.facts import Flow
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule, identity_rule
from shardwright.rules.traits import is_elementwise
from shardwright.sharding import TensorSharding

__all__ = ["Classes", "OfSignature"]

_DEPENDS_ON_USES = frozenset({Flow.PASS_THROUGH, Flow.DYNAMIC_SLICE})
"""What flows earlier where the operands of an op have no other users."""


class OfSignature(NamedTuple):
    """The classes of ops with one signature, made when first asked for."""

    numbers: list[int | None]
    """Where operands are used elsewhere too, and where they are not."""
    depends_on_uses: bool
    kind: Kind | None
    """Their kind, but for who else uses the operands; `None` where nothing flows through them."""


class Classes:
    """The classes that the ops of a program fall into; class 0 lets nothing flow.

    Attributes:
        rounds: For each phase, the step tables by class.
    """

    def __init__(self, numbers: Numbers, method: Method) -> None:
        """Know of class 0 only."""
        self.numbers = numbers
        self.method = method
        self.rounds: list[list[StepTable | None]] = [[None] for _ in method.phases]
        self._numbers: dict[Kind, int] = {}
        self._tables: dict[object, StepTable] = {}

    def of_signature(self, signature: Signature) -> OfSignature:
        """The classes of ops with a signature; see `number`.

        Raises:
            ShardingError: a rule that the program or a user gives does not fit the op.
        """
        flow = priorities.flow_of(signature, self.method.as_compiled)
        rule = self._rule(signature, flow)
        if rule is None or len(rule.operands) + len(rule.results) < 2:
            return OfSignature([0, 0], False, None)
        conservative = self.method.conservative and flow not in BARRIERS
        kind = Kind(flow, rule, False, is_elementwise(signature), conservative)
        return OfSignature([None, None], flow in _DEPENDS_ON_USES, kind)

    def number(self, known: OfSignature, single_use: bool) -> int:
        """The class of ops with a signature whose operands have no other users, or have some."""
        number = known.numbers[single_use]
        if number is None:
            assert known.kind is not None, "ops through which nothing flows are of class 0"
            number = self._of_kind(known.kind._replace(single_use=single_use))
            known.numbers[single_use] = number
        return number

    def of_edge(self, edge: DataFlowEdge, type: TensorType) -> int:
        """The class of the op of a data-flow edge along which values of a type flow."""
        kind = Kind(Flow.PASS_THROUGH, identity_rule(type.dims, len(edge.sources)))
        boundary = edge.boundary
        if boundary is None or edge.parent.signature.name != MANUAL:
            return self._of_kind(kind)
        manual = edge.parent.signature.boundary.manual_axes

        def inside(sharding: TensorSharding) -> TensorSharding:
            return without_manual_axes(sharding, manual)

        def outside(sharding: TensorSharding) -> TensorSharding:
            # Replicated inside are also the axes of dimensions whose priority has not come yet: nobody may take them.
            return with_replicated(with_manual_axes(boundary, sharding, manual), sharding.replicated)

        before, after = (outside, inside) if edge.inward else (inside, outside)
        return self._of_kind(kind._replace(before=before, after=after))

    def table(self, kind: Kind, phase: Phase) -> StepTable | None:
        """What ops of a kind do in a phase; `None` where nothing flows through them."""
        allowed = priorities.directions(kind.flow, kind.rule, kind.single_use, phase.round)
        if not any(allowed):
            return None
        key = (kind.rule, allowed, kind.elementwise, phase.strategy, kind.conservative, kind.before, kind.after)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = StepTable(
                self.numbers,
                kind.rule,
                allowed,
                kind.elementwise,
                phase.strategy,
                kind.before,
                kind.after,
                kind.conservative,
            )
        return table

    def _rule(self, signature: Signature, flow: Flow) -> ShardingRule | None:
        if flow in BARRIERS:
            return identity_rule(signature.results[0].dims)
        rule = rule_for(signature)
        return conservative_rule(signature, rule) if self.method.conservative and rule is not None else rule

    def _of_kind(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self.rounds[0])
            made: dict[object, StepTable | None] = {}  # most rounds allow what the one before did
            for phase, tables in zip(self.method.phases, self.rounds, strict=True):
                what = (priorities.allowed(kind.flow, kind.single_use, phase.round), phase.strategy)
                if what not in made:
                    made[what] = self.table(kind, phase)
                tables.append(made[what])
        return number
