"""How an op is split: which axes go to which factor, so that what it communicates is least.

Candidates come from the shardings at hand: each of the results and operands proposes axes for its factors; the
proposals are merged in several orders, earlier ones first. Each candidate is priced: resharding every operand from the
versions of it that exist, bringing every result to the sharding it should have, and the work left on each device, by
the one price of `cost.price`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shardwright.cost.hardware import Hardware, current_hardware
from shardwright.cost.price import Cost, price, work_cost
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import Hashed, memoize
from shardwright.mesh import Axes, AxisRef, Mesh, axes_size, can_coexist, merge_axes
from shardwright.partition.splits import Splits, splits_of
from shardwright.reshard.plan import plan
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.sharding import DimSharding, Partial, TensorSharding, replicated

__all__ = ["Assignment", "Source", "assign", "factor_axes", "tensor_sharding", "usable"]

Source = tuple[TensorSharding, ...]
"""The shardings in which a value exists already, the first one first; none for what any device can make (constants)."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The split chosen for an op.

    Attributes:
        operands: The sharding each operand must have (partial only where a partial sum passes through).
        results: The sharding each result is computed in, partial where a reduction factor was split.
        kind: Reduction kind of partial results.
        cost: What the op and all its edges cost on each device.
        gathered: Operands that had axes along a factor that cannot stay split.
        whole: Results that should have axes along such a factor.
    """

    operands: tuple[TensorSharding, ...]
    results: tuple[TensorSharding, ...]
    kind: str
    cost: Cost
    gathered: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class _Question(Hashed):
    """All that the split of an op depends on. Ops of many names ask the same: all additions and products of a shape."""

    splits: Splits
    operand_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]
    sources: tuple[Source, ...]
    targets: tuple[TensorSharding, ...]
    passing: frozenset[int]
    hardware: Hardware

    @property
    def mesh(self) -> Mesh:
        return _mesh(self.sources, self.targets)


def assign(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: tuple[TensorSharding, ...],
    passing: frozenset[int],
) -> Assignment:
    """Choose how to split an op, on the hardware of the session.

    Arguments:
        signature: The op.
        sources: For each operand, the shardings it exists in.
        targets: The sharding each result should have in the end.
        passing: Operands whose partial sum may pass through this op (it is their only use).
    """
    return _assigned(signature, sources, targets, passing, current_hardware())


@memoize
def _assigned(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: tuple[TensorSharding, ...],
    passing: frozenset[int],
    hardware: Hardware,
) -> Assignment:
    splits = splits_of(signature)
    if splits is None:
        return _whole(signature, _mesh(sources, targets), sources, targets, hardware)
    return _cheapest(_Question(splits, signature.operands, signature.results, sources, targets, passing, hardware))


@memoize
def _cheapest(question: _Question) -> Assignment:
    """Among equals the one with less work, then the one through which more partial sums pass, then the first."""

    def merit(candidate: Assignment) -> tuple[float, float, int]:
        passing = sum(bool(sharding.partial) for sharding in candidate.operands)
        return price(candidate.cost, question.hardware), candidate.cost.multiply_adds, -passing

    candidates = _candidates(question.splits, question.sources, question.targets)
    return min((one for factors in candidates for one in _priced(question, factors)), key=merit)


def _mesh(sources: tuple[Source, ...], targets: tuple[TensorSharding, ...]) -> Mesh:
    return targets[0].mesh if targets else next(source[0].mesh for source in sources if source)


def _whole(
    signature: Signature,
    mesh: Mesh,
    sources: tuple[Source, ...],
    targets: tuple[TensorSharding, ...],
    hardware: Hardware,
) -> Assignment:
    operands = tuple(replicated(mesh, type.rank) for type in signature.operands)
    results = tuple(replicated(mesh, type.rank) for type in signature.results)
    gathered = tuple(i for i, source in enumerate(sources) if source and any(source[0].axes))
    whole = tuple(i for i, target in enumerate(targets) if any(target.axes))
    cost = _operand_cost(signature.operands, sources, operands, hardware)
    return Assignment(operands, results, "sum", cost, gathered, whole)


FactorAxes = tuple[Axes, ...]


def _candidates(
    splits: Splits, sources: tuple[Source, ...], targets: tuple[TensorSharding, ...]
) -> Iterator[FactorAxes]:
    """Distinct, feasible factor assignments proposed by the tensors at hand."""
    rule = splits.rule
    of_results = [_project(m, rule.sizes, t.axes) for m, t in zip(rule.results, targets, strict=True)]
    of_operands = [
        _project(mapping, rule.sizes, sharding.axes)
        for mapping, source in zip(rule.operands, sources, strict=True)
        for sharding in source[:2]
    ]
    orders: list[list[FactorAxes]] = [of_results + of_operands, of_operands + of_results, of_results, []]
    orders += [[first, *of_results, *of_operands] for first in of_operands]
    orders += [[*of_results, first] for first in of_operands]
    seen: set[FactorAxes] = set()
    for allowed in dict.fromkeys((splits.allowed, splits.allowed - rule.reduction)):
        for order in orders:
            merged = _feasible(splits, _merge(len(rule.sizes), order, allowed))
            if merged not in seen:
                seen.add(merged)
                yield merged


def factor_axes(rule: ShardingRule, shardings: Sequence[TensorSharding]) -> FactorAxes:
    """The axes of each factor, from the shardings of all operands and results of an op in order."""
    proposals = [
        _project(mapping, rule.sizes, sharding.axes)
        for mapping, sharding in zip((*rule.operands, *rule.results), shardings, strict=True)
    ]
    return _merge(len(rule.sizes), proposals, frozenset(range(len(rule.sizes))))


@memoize
def _project(mapping: TensorMapping, sizes: tuple[int, ...], axes: tuple[Axes, ...]) -> FactorAxes:
    """The axes that a tensor's sharding gives each factor: those of a dimension dealt over its factors."""
    found: list[Axes] = [()] * len(sizes)
    for factors, dim_axes in zip(mapping, axes, strict=True):
        queue = list(dim_axes)
        for factor in factors:
            taken, full = _deal(queue, sizes[factor])
            if taken:
                found[factor] = taken
            if not full:
                break
    return tuple(found)


def _deal(queue: list[AxisRef], size: int) -> tuple[Axes, bool]:
    """Take axes off `queue` while they divide `size`; also whether they cover it."""
    taken: list[AxisRef] = []
    while queue and size > 1:
        axis = queue[0]
        shared = math.gcd(axis.size, size)
        if shared == 1:
            return tuple(taken), False
        taken.append(AxisRef(axis.name, axis.pre, shared))
        size //= shared
        if shared == axis.size:
            queue.pop(0)
        else:
            queue[0] = AxisRef(axis.name, axis.pre * shared, axis.size // shared)
    return tuple(taken), size == 1


def _merge(count: int, proposals: Iterable[FactorAxes], allowed: frozenset[int]) -> FactorAxes:
    """Give each factor the axes proposed first; later proposals may extend them by axes nobody uses."""
    merged: list[Axes] = [()] * count
    used: list[AxisRef] = []
    for proposal in proposals:
        for factor, axes in enumerate(proposal):
            held = merged[factor]
            if factor not in allowed or not axes or axes[: len(held)] != held:
                continue
            for axis in axes[len(held) :]:
                if not _fits(axis, used):
                    break
                merged[factor] += (axis,)
                used.append(axis)
    return tuple(merged)


def _fits(axis: AxisRef, used: Iterable[AxisRef]) -> bool:
    """Whether `axis` can be used beside others."""
    return all(not axis.overlaps(other) and can_coexist(axis, other) for other in used)


def _feasible(splits: Splits, factors: FactorAxes) -> FactorAxes:
    """Drop axes that some tensor could not hold: those of a minor factor below a major one that is not full.

    What is dropped for one tensor may leave a factor of another not full, so this goes on until nothing changes.
    """
    rule = splits.rule
    kept = list(factors)
    for mapping in (*rule.operands, *rule.results):
        for dim in mapping:
            full = True
            for factor in dim:
                if not full:
                    kept[factor] = ()
                full = full and axes_size(kept[factor]) == rule.sizes[factor]
    feasible = tuple(kept)
    return feasible if feasible == factors else _feasible(splits, feasible)


def _priced(question: _Question, factors: FactorAxes) -> Iterator[Assignment]:
    """The assignments that these axes of the factors allow."""
    splits, mesh, sources = question.splits, question.mesh, question.sources
    rule = splits.rule
    partial = [axis for factor in sorted(rule.reduction) for axis in factors[factor]]
    made = tuple(Partial(axis, splits.kind) for axis in mesh.in_order(partial))
    operands = tuple(tensor_sharding(mesh, mapping, factors) for mapping in rule.operands)
    results = tuple(tensor_sharding(mesh, mapping, factors, made) for mapping in rule.results)
    work = work_cost(rule.sizes, factors)
    gathered = tuple(_lost(rule.operands, splits, sources))
    whole = tuple(_lost(rule.results, splits, [(target,) for target in question.targets]))
    for through in (frozenset[int](), *_passes(question, factors)):
        moved = next(iter(through), None)
        held = sources[moved][0].partial if moved is not None else ()
        needed = tuple(_plus(s, held) if i in through else s for i, s in enumerate(operands))
        produced = tuple(_plus(s, held) for s in results)
        cost = work + _operand_cost(question.operand_types, sources, needed, question.hardware)
        for type, result, target in zip(question.result_types, produced, question.targets, strict=True):
            cost += _moving_cost(type, result, target, question.hardware)
        yield Assignment(needed, produced, splits.kind, cost, gathered, whole)


def _passes(question: _Question, factors: FactorAxes) -> Iterator[frozenset[int]]:
    """Sets of operands that may stay partial through this op."""
    passing, sources, splits = question.passing, question.sources, question.splits
    if not passing or splits.kind != "sum":
        return
    used = [axis for axes in factors for axis in axes]
    for together in splits.linear:
        partials = {sources[i][0].partial if i in passing and sources[i] else () for i in together}
        if len(partials) != 1:
            continue
        held = partials.pop()
        if held and all(p.kind == "sum" and _fits(p.axis, used) for p in held):
            yield frozenset(together)


def _plus(sharding: TensorSharding, partial: tuple[Partial, ...]) -> TensorSharding:
    return sharding.with_axes(sharding.axes, (*sharding.partial, *partial)).closed() if partial else sharding


def _lost(mappings: Sequence[TensorMapping], splits: Splits, sources: Sequence[Source]) -> Iterator[int]:
    """Operands, or results, that are split along a factor that cannot stay so."""
    for operand, (mapping, source) in enumerate(zip(mappings, sources, strict=True)):
        if not source:
            continue
        proposed = _project(mapping, splits.rule.sizes, source[0].axes)
        if any(axes and factor not in splits.allowed for factor, axes in enumerate(proposed)):
            yield operand


def _operand_cost(
    types: tuple[TensorType, ...], sources: tuple[Source, ...], needed: tuple[TensorSharding, ...], hardware: Hardware
) -> Cost:
    total = Cost()
    for type, source, target in zip(types, sources, needed, strict=True):
        if source and target not in source:
            costs = [_moving_cost(type, version, target, hardware) for version in usable(source, target)]
            total += min(costs, key=lambda cost: price(cost, hardware))
    return total


def usable(source: Source, target: TensorSharding) -> Source:
    """The versions from which `target` can be reached: where it is partial, they must be."""
    if not target.partial:
        return source
    return tuple(version for version in source if set(target.partial) <= set(version.partial))


def _moving_cost(type: TensorType, source: TensorSharding, target: TensorSharding, hardware: Hardware) -> Cost:
    """What bringing a tensor from one sharding to another costs."""
    if source == target or not type.elements:
        return Cost()
    if target.partial and not usable((source,), target):
        target = target.with_axes(target.axes)  # and contributions are made of it, which sends nothing
    return plan(type.dims, type.bytes // type.elements, source, target, hardware).cost


@memoize
def tensor_sharding(
    mesh: Mesh, mapping: TensorMapping, factors: FactorAxes, partial: tuple[Partial, ...] = ()
) -> TensorSharding:
    """The sharding of a tensor whose factors have these axes."""
    dims = tuple(DimSharding(merge_axes(tuple(axis for factor in dim for axis in factors[factor]))) for dim in mapping)
    return TensorSharding(mesh, dims, partial=partial)
