"""A way to split an op, and what it costs: the op itself, what its devices exchange inside, and each edge.

Edges are what brings each operand from each version of it that exists to where the op needs it, and each result to
where it should be. Their plans take most of the time, so there are bounds of what they cost as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.hardware import Hardware
from shardwright.cost.price import Cost, price, step_cost, work_cost
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.edges import NOTHING, edge_bound, leads_to, least_of, read_costs, write_costs
from shardwright.partition.factors import FactorAxes, can_split, tensor_sharding
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.partition.proposals import Intended, Shardings, Source, mesh_of
from shardwright.partition.splits import Splits
from shardwright.rules.registry import gone_through
from shardwright.rules.rule import ShardingRule, TensorMapping, factors_in
from shardwright.rules.traits import facts_of
from shardwright.sharding import Partial, TensorSharding, interned
from shardwright.steps import local_bytes

__all__ = [
    "ROUNDED",
    "Choice",
    "Held",
    "PartialTogether",
    "Question",
    "Way",
    "exchange_cost",
    "held_in_one_way",
    "is_dearer",
    "least_with",
    "lying_by",
    "partial_together",
    "passing_ways",
    "parts_of",
    "priced",
    "question_of",
    "sets_together",
    "ways_lying",
    "ways_of",
    "works_of",
]


class Choice(NamedTuple):
    """One way to split an op.

    Attributes:
        operands: The sharding each operand must have (partial only where a partial sum passes through).
        results: The sharding each result is computed in, partial where a reduction factor was split.
        kind: Reduction kind of partial results.
        own: What the op itself costs on each device.
        exchange: What devices send and start inside the op, to give its results complete.
        reads: For each operand, what bringing it there costs from each of its versions; `None` for a version from
            which it cannot be reached, no entries for what any device can make.
        writes: For each result, what bringing it to its target costs; of a way that was given nothing is told of both.
        gathered: Operands that had axes which no factor takes that can be split, or none with no exchange inside.
        whole: Results that should have such axes.
    """

    operands: Shardings
    results: Shardings
    kind: str
    own: Cost
    exchange: Cost
    reads: tuple[tuple[Cost | None, ...], ...]
    writes: tuple[Cost, ...]
    gathered: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()

    def price(self, hardware: Hardware) -> float:
        """Seconds for the op and all its edges, each operand brought from the version that is cheapest."""
        return price(self.total(hardware), hardware)

    def total(self, hardware: Hardware) -> Cost:
        """What the op and all its edges cost, each operand brought from the version that is cheapest."""
        total = self.own
        for cost in (self.exchange, *[least_of(versions, hardware) for versions in self.reads], *self.writes):
            if cost is not NOTHING:
                total += cost
        return total


class Question(NamedTuple):
    """All that the split of an op depends on."""

    splits: Splits
    operand_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]
    sources: tuple[Source, ...]
    targets: Shardings
    passing: frozenset[int]
    hardware: Hardware
    exchanging: Signature | None
    """The op, where it may exchange something inside: what that is depends on more than types."""
    moves: bool
    """Whether it moves elements, or looks them up or puts them somewhere, and computes hardly anything."""
    unread: frozenset[int]
    """Results that nobody reads, which may lie as they like."""
    proposing: tuple[Source, ...]
    """The sources, and behind them how operands shall lie that are sums still: what ways are proposed by."""


class Way(NamedTuple):
    """A way to split an op before its edges are priced; the fields are those of `Choice`."""

    operands: Shardings
    results: Shardings
    own: Cost
    exchange: Cost


def question_of(
    signature: Signature,
    splits: Splits,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    hardware: Hardware,
    unread: frozenset[int] = frozenset(),
    intended: Intended = (),
) -> Question:
    """The question how an op is split; the arguments are those of `assign`, with how it may be."""
    exchanging = signature if splits.exchanged else None
    types = signature.operands, signature.results
    moves = facts_of(signature.name).moves or gone_through(signature) is not None
    proposing = list(sources)
    for operand, layout in intended:
        proposing[operand] = (*sources[operand][:1], layout)
    return Question(splits, *types, sources, targets, passing, hardware, exchanging, moves, unread, tuple(proposing))


def ways_of(question: Question, factors: FactorAxes) -> Iterator[Way]:
    """What the axes proposed for the factors allow: no partial sum passes through, or some do."""
    splits, mesh = question.splits, mesh_of(question.sources, question.targets)
    lying = lying_by(mesh, splits.rule, splits.contributing, splits.kind, (factors,))
    (plain,) = ways_lying(question, *lying, works_of(splits, parts_of((factors,)), question.hardware))
    yield plain
    if question.passing:
        yield from passing_ways(partial_together(question), factors, plain)


class PartialTogether(NamedTuple):
    """Operands that are parts of sums and may stay so together through an op.

    Attributes:
        operands: Which.
        held: Along which axes.
        count_once: Whether they count once, and are to be partial only along axes along which results are so anyway.
    """

    operands: frozenset[int]
    held: tuple[Partial, ...]
    count_once: bool


def partial_together(question: Question) -> list[PartialTogether]:
    """Which operands of an op may stay partial through it."""
    passing, sources, splits = question.passing, question.sources, question.splits
    found: list[PartialTogether] = []
    for together, count_once in sets_together(splits) if passing else ():
        partials = {sources[i][0].partial if i in passing and sources[i] else () for i in together}
        if len(partials) == 1:
            (held,) = partials
            if held and all(p.kind == "sum" for p in held):
                found.append(PartialTogether(frozenset(together), held, count_once))
    return found


def sets_together(splits: Splits) -> list[tuple[tuple[int, ...], bool]]:
    """Sets of operands that may be parts of sums together, and whether they count once."""
    if splits.kind != "sum":
        return []
    once = [((operand,), True) for operand in sorted(splits.once)]
    return [*[(together, False) for together in splits.linear], *once]


def passing_ways(through: Sequence[PartialTogether], factors: FactorAxes, plain: Way) -> Iterator[Way]:
    """The ways in which partial sums pass through, by the one in which none does."""
    used = [axis for axes in factors for axis in axes] if through else []
    ways = [plain]
    for operands, held, count_once in through:
        if not count_once and all(can_split(p.axis, used) for p in held):
            ways.append(Way(_plus_of(plain.operands, operands, held), _plus_of(plain.results, None, held), *plain[2:]))
    yield from ways[1:]
    for operands, held, count_once in through:
        for way in ways if count_once else ():
            if all(set(held) <= set(result.partial) for result in way.results):
                yield way._replace(operands=_plus_of(way.operands, operands, held))


def _plus_of(layouts: Shardings, which: frozenset[int] | None, held: tuple[Partial, ...]) -> Shardings:
    """Layouts of which some, or all, are partial as well."""
    return tuple([_plus(one, held) if which is None or i in which else one for i, one in enumerate(layouts)])


def ways_lying(
    question: Question, operands: Sequence[Shardings], results: Sequence[Shardings], work: Sequence[Cost]
) -> list[Way]:
    """For each of some axes of the factors the way in which no partial sum passes through, by how tensors lie then."""
    if not question.exchanging:
        return [Way(read, made, own, NOTHING) for read, made, own in zip(operands, results, work, strict=True)]
    exchanges = [exchange_cost(question.exchanging, read, question.hardware) for read in operands]
    return list(map(Way, operands, results, work, exchanges))


@memoize
def lying_by(
    mesh: Mesh, rule: ShardingRule, contributing: frozenset[int], kind: str, listed: tuple[FactorAxes, ...]
) -> tuple[Sequence[Shardings], Sequence[Shardings]]:
    """For each of some axes of the factors how operands and results lie: many ops are split by the same rule.

    Arguments:
        mesh: Of the axes.
        rule: Of the op.
        contributing: Factors along which results are left partial.
        kind: By which kind.
        listed: The axes.
    """
    lying: dict[TensorMapping, list[TensorSharding]] = {}
    for mapping in (*rule.operands, *rule.results):  # of which many are the same
        if mapping not in lying:
            lying[mapping] = [tensor_sharding(mesh, mapping, factors) for factors in listed]
    operands = _of_each(list(map(lying.__getitem__, rule.operands)), listed)
    results = _of_each(list(map(lying.__getitem__, rule.results)), listed)
    for number, factors in enumerate(listed) if contributing else ():
        partial = [axis for factor in sorted(contributing) for axis in factors[factor]]
        if partial:
            made = tuple([Partial(axis, kind) for axis in mesh.in_order(partial)])
            results[number] = tuple([tensor_sharding(mesh, mapping, factors, made) for mapping in rule.results])
    return operands, results


def _of_each(tensors: Sequence[Sequence[TensorSharding]], listed: Sequence[FactorAxes]) -> list[Shardings]:
    """How some tensors lie, by axes of factors rather than by tensor."""
    return list(zip(*tensors, strict=True)) if tensors else [()] * len(listed)


def parts_of(listed: Sequence[FactorAxes]) -> list[tuple[int, ...]]:
    """Into how many parts each of some axes split the factors."""
    return [tuple([math.prod([axis.size for axis in axes]) for axes in factors]) for factors in listed]


def works_of(splits: Splits, parts: Sequence[tuple[int, ...]], hardware: Hardware) -> list[Cost]:
    """What is left of the work of an op on each device, by parts of its factors; few of these are different."""
    costs = {counts: splits.work(counts, hardware) for counts in dict.fromkeys(parts)}
    return list(map(costs.__getitem__, parts))


def priced(question: Question, way: Way) -> Choice:
    """A way with what its edges cost, each by itself."""
    reads = read_costs(question.operand_types, question.sources, way.operands, question.hardware)
    writes = write_costs(question.result_types, way.results, _read_targets(question, way), question.hardware)
    return Choice(way.operands, way.results, question.splits.kind, way.own, way.exchange, reads, writes)


ROUNDED = 1 - 1e-12
"""Of a bound by as much, sums of other numbers that are the same but for rounding are not less."""


class Held(NamedTuple):
    """An operand that lies in one way: bytes of all of it, those of the part of a device, factors of its dimensions."""

    bytes: int
    part: int
    factors: tuple[int, ...]


def held_in_one_way(question: Question) -> list[Held]:
    """The operands that are split, and lie in one way only: what of these a device does not have it must receive."""
    tensors = zip(question.operand_types, question.splits.rule.operands, question.sources, strict=True)
    return [
        Held(type.bytes, _held(type, source[0]), tuple(factors_in(mapping)))
        for type, mapping, source in tensors
        if len(source) == 1 and source[0].used_axes
    ]


def _held(type: TensorType, sharding: TensorSharding) -> int:
    """Bytes that a device has of a tensor."""
    return local_bytes(type.dims, type.bytes // max(1, type.elements), sharding)


def least_with(iterations: int, factors: FactorAxes, operands: Sequence[Held]) -> Cost:
    """What every way costs at least in which the factors have these axes, which takes no shardings to tell: its work,
    and what devices lack of the parts of operands.
    """
    parts, total = list(map(axes_size, factors)), work_cost(iterations, factors)
    for bytes, part, held in operands:
        needed = bytes / math.prod([parts[factor] for factor in held])
        if needed > part:
            total += Cost(needed - part, 1)
    return total


def is_dearer(question: Question, way: Way, seconds: float) -> bool:
    """Whether a way costs more than so many seconds by what its edges cost at least, which takes no plan to tell."""
    total = way.own + way.exchange
    for cost in _bounds(question, way):
        total += cost
        if price(total, question.hardware) * ROUNDED > seconds:
            return True
    return False


def _bounds(question: Question, way: Way) -> Iterator[Cost]:
    """What each edge of a way costs at least."""
    for type, source, target in zip(question.operand_types, question.sources, way.operands, strict=True):
        bounds = [edge_bound(type, v, target, question.hardware) for v in source if leads_to(v, target)]
        yield least_of(tuple(bounds), question.hardware)
    for type, made, target in zip(question.result_types, way.results, _read_targets(question, way), strict=True):
        yield edge_bound(type, made, target, question.hardware)


def _read_targets(question: Question, way: Way) -> Shardings:
    """Where each result should be: of those that nobody reads, where it is made."""
    if not question.unread:
        return question.targets
    pairs = zip(way.results, question.targets, strict=True)
    return tuple([made if result in question.unread else target for result, (made, target) in enumerate(pairs)])


def exchange_cost(signature: Signature, operands: Shardings, hardware: Hardware) -> Cost:
    """What each device sends and starts inside an op whose operands lie so."""
    total = NOTHING
    for exchange in exchanges_of(signature, operands):
        type = exchange.type
        held = _held(type, exchange.before)
        by_hand = combined_by_hand(type.dtype)
        cost = step_cost(exchange.step, exchange.before, held, by_hand, hardware.links)
        total += cost._replace(starts=0) if exchange.is_along else cost
    return total


@memoize
def _plus(sharding: TensorSharding, partial: tuple[Partial, ...]) -> TensorSharding:
    return interned(sharding.with_axes(sharding.axes, (*sharding.partial, *partial)).closed())
