"""What is said about an op's tensors, and the sharding option that follows: the axes that its loops are split by.

Axes are taken from what is said about results, then about operands; what is required comes before what is a hint. That
a result is a partial sum tells that a loop is split that is reduced over, not which one: it is the one that an operand
splits so, else the first that nothing is said of.

The RFC lets one loop of several split a dimension of an operand. It means windows, whose loops overlap. The loops of
our rules are digits of an index: several may split a dimension, where all but the last are split in full.

Source: the mesh RFC on LLVM's forum, `ShardingInterface::getShardingOption` and `setShardingAnnotations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, AxisRef, axes_size, overlaps_any, subtract_axes, truncate_by_divisor
from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.propagation.engine.projection import project
from shardwright.propagation.rfc.derivation import Dropped, OpStatement
from shardwright.propagation.rfc.option import Option
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.rules.traits import facts_of, is_elementwise
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["Deduced", "made_partial", "option_of", "shaped"]


@dataclass(frozen=True, slots=True)
class Deduced:
    """What follows for an op.

    Attributes:
        mesh: Its mesh; `None` where nothing that is said of it splits or sums.
        option: The axes of its loops.
        owners: Who wanted them, by factor.
        dropped: The hints that it drops.
    """

    mesh: Mesh | None
    option: Option
    owners: dict[int, OpStatement]
    dropped: list[Dropped]


def option_of(
    rule: ShardingRule, statements: Sequence[OpStatement], signature: Signature, location: Callable[[], str]
) -> Deduced:
    """The option that follows from what is said about an op's tensors.

    Arguments:
        rule: The op's rule.
        statements: What is said, results first.
        signature: The op.
        location: Gives `FILE:LINE` of the op, for diagnostics.

    Raises:
        ShardingError: two required annotations want different axes for one loop, one axis for two, or two meshes; or
            a required one wants a partial sum of an op that makes none.
    """
    deduction = _Deduction(rule, signature, location)
    deduction.follow([statement for statement in statements if statement.required])
    deduction.follow([statement for statement in statements if not statement.required])
    return Deduced(deduction.mesh, deduction.option, deduction.owners, deduction.dropped)


class _Deduction:
    """An option in the making; `owners` tells who decided each loop."""

    def __init__(self, rule: ShardingRule, signature: Signature, location: Callable[[], str]) -> None:
        self.rule = rule
        self.signature = signature
        self.location = location
        self.mesh: Mesh | None = None
        self.option: Option = {}
        self.dropped: list[Dropped] = []
        self.owners: dict[int, OpStatement] = {}
        self._placed: OpStatement | None = None
        self._summed: OpStatement | None = None
        self._whole = frozenset(factor for factor, size in enumerate(rule.sizes) if size == 1) | rule.need_replication

    def follow(self, statements: Sequence[OpStatement]) -> None:
        """Take what some of the tensors want, of which all is required or all are hints."""
        here = [one for one in statements if self._is_on_mesh(one)]
        for one in here:
            if one.tensor >= len(self.rule.operands) and one.sharding.partial:
                self._summed = self._summed or one
            for factor, axes in self._axes_asked_for(one):
                self._split(factor, axes, one)
        for one in here:
            if one.tensor >= len(self.rule.operands):
                self._sum(one)

    def _is_on_mesh(self, one: OpStatement) -> bool:
        mesh = one.sharding.mesh
        if mesh.is_maximal:
            return False
        if not (one.sharding.used_axes or one.sharding.partial):
            return True
        if self._placed is None:
            self._placed, self.mesh = one, mesh
        elif mesh != self.mesh:
            self._refuse(one, self._placed, "an op's tensors lie on one mesh")
            return False
        return True

    def _axes_asked_for(self, statement: OpStatement) -> Iterator[tuple[int, Axes]]:
        """The axes that one sharding asks for, by factor; other hints leave free what they do not split."""
        mapping = (self.rule.operands + self.rule.results)[statement.tensor]
        keeps_whole = statement.required or statement.decided
        for factor, split in project(mapping, statement.sharding, self.rule.sizes).factors.items():
            if factor not in self._whole and (split.axes or (keeps_whole and not split.overflow)):
                yield factor, split.axes

    def _split(self, factor: int, axes: Axes, one: OpStatement) -> None:
        rival = self._rival(factor, axes)
        if rival is not None:
            self._refuse(one, rival, "they split one loop of the op in two ways, or two loops by one axis")
            return
        if factor not in self.option:
            self.option[factor] = axes if one.required else truncate_by_divisor(axes, self.rule.sizes[factor])
            self.owners[factor] = one

    def _rival(self, factor: int, axes: Axes) -> OpStatement | None:
        """Who wants other axes for a factor, or these for another."""
        if factor in self.option:
            return self.owners[factor] if self.option[factor] != axes else None
        for other, taken in self.option.items():
            if any(overlaps_any(axis, taken) for axis in axes):
                return self.owners[other]
        summed = self._summed
        if factor in self.rule.reduction and summed is not None and subtract_axes(axes, summed.sharding.partial_axes):
            return summed
        return None

    def _sum(self, one: OpStatement) -> None:
        """Find a loop for the axes along which a result is partial."""
        loops = sorted(self.rule.reduction - self._whole)
        taken = [axis for factor in loops for axis in self.option.get(factor, ())]
        missing = subtract_axes(one.sharding.partial_axes, taken)
        if not missing:
            return
        free = next((factor for factor in loops if factor not in self.option), None)
        if free is not None:
            self._split(free, missing, one)
        elif loops:
            self._refuse(one, self.owners[loops[0]], "the loops that the op reduces over are split otherwise")
        elif is_elementwise(self.signature) and not facts_of(self.signature.name).linear:
            self._makes_no_sum(one)

    def _makes_no_sum(self, one: OpStatement) -> None:
        why = "the op has no loop that it sums over, and partial sums do not pass through it"
        if one.required:
            raise ShardingError(
                f"{one} cannot be a partial sum",
                op=self.signature.label,
                location=one.line or self.location(),
                cause=why,
                remedy="take the partial axes out of the annotation",
            )
        self._lose(one, why)

    def _refuse(self, one: OpStatement, winner: OpStatement, why: str) -> None:
        if one.required and winner.required:
            raise ShardingError(
                f"required annotations contradict each other: {winner} and {one}",
                op=self.signature.label,
                location=self.location(),
                cause=f"the first is at {winner.line}, the second at {one.line}; {why}",
                remedy="change one of them, or make it a hint: all its dimensions open, `required = false` in the RFC",
            )
        self._lose(one, f"it contradicts {winner}" + (f" at {winner.line}" if winner.line else ""))

    def _lose(self, hint: OpStatement, why: str) -> None:
        if hint.line and all(other.hint is not hint for other in self.dropped):
            self.dropped.append(Dropped(hint, why))


def shaped(mapping: TensorMapping, option: Option, rule: ShardingRule, mesh: Mesh) -> TensorSharding:
    """The sharding of a tensor of an op that is split as `option` says."""
    dims = []
    for factors in mapping:
        axes: list[AxisRef] = []
        for factor in factors:
            mine = option.get(factor, ())
            axes += mine
            if axes_size(mine) != rule.sizes[factor]:
                break
        dims.append(DimSharding(tuple(axes)))
    return TensorSharding(mesh, tuple(dims)).closed()


def made_partial(sharding: TensorSharding, option: Option, rule: ShardingRule, signature: Signature) -> TensorSharding:
    """The sharding of a result with the axes that its op sums over; other reductions are done at once."""
    if any(body.reduction != "sum" for body in signature.bodies):
        return sharding
    axes = [axis for factor in sorted(rule.reduction) for axis in option.get(factor, ())]
    return sharding.with_axes(sharding.axes, [Partial(axis) for axis in axes]).closed()
