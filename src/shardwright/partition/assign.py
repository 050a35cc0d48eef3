"""How an op is split: which axes go to which factor, so that what it communicates is least.

A candidate says what the op itself costs and, apart from that, every edge: resharding each operand from each version
of it that exists, and bringing each result to the sharding that it should have. `choices` lists the candidates, those
that tensors at hand propose or all that the mesh allows (see `proposals`); `assign` takes the cheapest of the former by
the one price of `cost.price`. Most of the time goes into plans for edges, so `assign` asks for those of a candidate
only where bounds of what they cost (`reshard.bound`) do not come to more than the cheapest so far.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardwright.axes import axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.hardware import Hardware, current_hardware
from shardwright.cost.price import Cost, price, step_cost, work_cost
from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.edges import NOTHING, edge_bound, leads_to, least_of, read_costs, write_costs
from shardwright.partition.factors import FactorAxes, can_split, project, tensor_sharding, within_bounds
from shardwright.partition.localize.exchanges import exchanges_of
from shardwright.partition.proposals import Proposals, Shardings, Source, from_tensors, mesh_of
from shardwright.partition.splits import Splits, splits_of
from shardwright.rules.rule import TensorMapping
from shardwright.sharding import Partial, TensorSharding, replicated
from shardwright.steps import local_bytes
from shardwright.words import counted

__all__ = ["MOST", "Choice", "assign", "choices"]

MOST = 1 << 14
"""Ways to split an op that are listed and priced."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to split an op.

    Attributes:
        operands: The sharding each operand must have (partial only where a partial sum passes through).
        results: The sharding each result is computed in, partial where a reduction factor was split.
        kind: Reduction kind of partial results.
        own: What the op itself costs on each device.
        exchange: What devices send and start inside the op, to give its results complete.
        reads: For each operand, what bringing it there costs from each of its versions; `None` for a version from
            which it cannot be reached, no entries for what any device can make.
        writes: For each result, what bringing it to its target costs.
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
        total = self.own
        for cost in (self.exchange, *[least_of(versions, hardware) for versions in self.reads], *self.writes):
            if cost is not NOTHING:
                total += cost
        return price(total, hardware)


@dataclass(frozen=True, slots=True)
class _Question:
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


def assign(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    hardware: Hardware | None = None,
) -> Choice:
    """The cheapest of the `choices` to split an op.

    Arguments:
        signature: The op.
        sources: For each operand, the shardings it exists in.
        targets: The sharding each result should have in the end.
        passing: Operands whose partial sum may pass through this op (it is their only use).
        hardware: What it is to be cheap on; that of the session where it is not said.
    """
    hardware = hardware or current_hardware()
    splits = splits_of(signature)
    if splits is None:
        return _whole(signature, sources, targets, hardware)
    in_place = _in_place(splits, sources, targets)
    return in_place or _cheapest(_question(signature, splits, sources, targets, passing, hardware))


def _in_place(splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> Choice | None:
    """The choice for an op that computes element by element, whose tensors all lie in one way in which it can be split.

    Most ops are so, and nothing can be cheaper: nothing moves, and all axes that the tensors have split the work.
    """
    rule = splits.rule
    mappings, shardings = {*rule.operands, *rule.results}, {*targets, *itertools.chain.from_iterable(sources)}
    if len(mappings) != 1 or len(shardings) != 1 or splits.exchanged:
        return None
    (mapping,), (sharding,) = mappings, shardings
    own = _work_in_place(mapping, rule.sizes, splits.iterations, splits.allowed, sharding)
    if own is None:
        return None
    operands, results = (sharding,) * len(sources), (sharding,) * len(targets)
    reads = tuple([(NOTHING,) if source else () for source in sources])
    return Choice(operands, results, splits.kind, own, NOTHING, reads, (NOTHING,) * len(targets))


@memoize
def _work_in_place(
    mapping: TensorMapping, sizes: tuple[int, ...], iterations: int, allowed: frozenset[int], sharding: TensorSharding
) -> Cost | None:
    """The work left of a loop for each dimension where tensors lie so; `None` where it cannot be split so."""
    if mapping != tuple([(dim,) for dim in range(len(sizes))]):
        return None
    factors = project(mapping, sizes, sharding.axes)
    split = {factor for factor, axes in enumerate(factors) if axes}
    if not split <= allowed or tensor_sharding(sharding.mesh, mapping, factors) != sharding:
        return None
    return work_cost(iterations, factors)


def _question(
    signature: Signature,
    splits: Splits,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    hardware: Hardware,
) -> _Question:
    exchanging = signature if splits.exchanged else None
    return _Question(splits, signature.operands, signature.results, sources, targets, passing, hardware, exchanging)


def choices(
    signature: Signature,
    sources: tuple[Source, ...],
    targets: Shardings,
    passing: frozenset[int],
    proposals: Proposals = from_tensors,
) -> tuple[Choice, ...]:
    """The ways to split an op, each priced for the hardware of the session.

    Arguments:
        signature: The op.
        sources: For each operand, the shardings it exists in.
        targets: The sharding each result should have in the end.
        passing: Operands whose partial sum may pass through this op (it is their only use).
        proposals: Where the ways come from: `from_tensors` gives those that `assign` compares, `from_mesh` all legal
            ones, of which a tensor may have none.

    Raises:
        ShardingError: there are more than `MOST`.
    """
    splits, hardware = splits_of(signature), current_hardware()
    if splits is None:
        return (_whole(signature, sources, targets, hardware),)
    question = _question(signature, splits, sources, targets, passing, hardware)
    proposed = tuple(itertools.islice(proposals(splits, sources, targets), MOST + 1))
    if len(proposed) > MOST:
        raise ShardingError(
            f"there are more than {MOST} ways to split {signature.name}",
            op=signature.label,
            cause=f"{counted(len(splits.allowed), 'loop')} may be split over {mesh_of(sources, targets)!r}",
            remedy="take the ways that tensors at hand propose, or a mesh of fewer axes",
        )
    gathered, whole = _undivided(question)
    priced = [_priced(question, way) for factors in proposed for way in _ways(question, factors)]
    return tuple([replace(choice, gathered=gathered, whole=whole) for choice in priced])


def _cheapest(question: _Question) -> Choice:
    """The cheapest way, by price; among equals the one with less work, then the one through which more partial sums
    pass, then the first.
    """
    hardware, iterations, work = question.hardware, question.splits.iterations, _least_work(question)
    best: Choice | None = None
    least = math.inf, math.inf, 0
    for factors in from_tensors(question.splits, question.sources, question.targets):
        if best is not None and price(work_cost(iterations, factors), hardware) * _ROUNDED > least[0]:
            continue
        for way in _ways(question, factors):
            if best is not None and _is_dearer(question, way, least[0]):
                continue
            choice = _priced(question, way)
            passing = sum([bool(sharding.partial) for sharding in choice.operands])
            merit = choice.price(hardware), choice.own.multiply_adds, -passing
            if best is None or merit < least:
                best, least = choice, merit
        # Nothing moves then, and the others leave no less work: no need to ask what they cost.
        if not question.passing and least[:2] <= (price(work, hardware), work.multiply_adds):
            break
    assert best is not None, "a way that splits nothing is among them"
    gathered, whole = _undivided(question, best)
    return replace(best, gathered=gathered, whole=whole) if gathered or whole else best


def _least_work(question: _Question) -> Cost:
    """The work of the op if all axes split it that tensors at hand have: what they propose leaves no less."""
    shardings = itertools.chain(question.targets, *[source[:2] for source in question.sources])
    axes = set(itertools.chain.from_iterable([sharding.used_axes for sharding in shardings]))
    return work_cost(question.splits.iterations, (axes,))


def _whole(signature: Signature, sources: tuple[Source, ...], targets: Shardings, hardware: Hardware) -> Choice:
    """The op computed whole on every device, about whose work nothing is known."""
    mesh = mesh_of(sources, targets)
    operands = tuple(replicated(mesh, type.rank) for type in signature.operands)
    results = tuple(replicated(mesh, type.rank) for type in signature.results)
    return Choice(
        operands,
        results,
        "sum",
        NOTHING,
        NOTHING,
        read_costs(signature.operands, sources, operands, hardware),
        write_costs(signature.results, results, targets, hardware),
        gathered=tuple(i for i, source in enumerate(sources) if source and any(source[0].axes)),
        whole=tuple(i for i, target in enumerate(targets) if any(target.axes)),
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to split an op before its edges are priced; the fields are those of `Choice`."""

    operands: Shardings
    results: Shardings
    own: Cost
    exchange: Cost


def _ways(question: _Question, factors: FactorAxes) -> Iterator[_Way]:
    """What the axes proposed for the factors allow: no partial sum passes through, or some do."""
    splits, mesh, sources = question.splits, mesh_of(question.sources, question.targets), question.sources
    rule = splits.rule
    partial = [axis for factor in sorted(splits.contributing) for axis in factors[factor]]
    made = tuple([Partial(axis, splits.kind) for axis in mesh.in_order(partial)])
    operands = tuple([tensor_sharding(mesh, mapping, factors) for mapping in rule.operands])
    results = tuple([tensor_sharding(mesh, mapping, factors, made) for mapping in rule.results])
    own = work_cost(splits.iterations, factors)
    exchange = _exchange_cost(question.exchanging, operands) if question.exchanging else NOTHING
    yield _Way(operands, results, own, exchange)
    for through in _passes(question, factors):
        held = sources[min(through)][0].partial
        needed = tuple([_plus(s, held) if i in through else s for i, s in enumerate(operands)])
        yield _Way(needed, tuple([_plus(s, held) for s in results]), own, exchange)


def _priced(question: _Question, way: _Way) -> Choice:
    """A way with what its edges cost, each by itself."""
    reads = read_costs(question.operand_types, question.sources, way.operands, question.hardware)
    writes = write_costs(question.result_types, way.results, question.targets, question.hardware)
    return Choice(way.operands, way.results, question.splits.kind, way.own, way.exchange, reads, writes)


_ROUNDED = 1 - 1e-12
"""Of a bound by as much, sums of other numbers that are the same but for rounding are not less."""


def _is_dearer(question: _Question, way: _Way, seconds: float) -> bool:
    """Whether a way costs more than so many seconds by what its edges cost at least, which takes no plan to tell."""
    total = way.own + way.exchange
    for cost in _bounds(question, way):
        total += cost
        if price(total, question.hardware) * _ROUNDED > seconds:
            return True
    return False


def _bounds(question: _Question, way: _Way) -> Iterator[Cost]:
    """What each edge of a way costs at least."""
    for type, source, target in zip(question.operand_types, question.sources, way.operands, strict=True):
        yield least_of(tuple([edge_bound(type, v, target) for v in source if leads_to(v, target)]), question.hardware)
    for type, made, target in zip(question.result_types, way.results, question.targets, strict=True):
        yield edge_bound(type, made, target)


def _exchange_cost(signature: Signature, operands: Shardings) -> Cost:
    """What each device sends and starts inside an op whose operands lie so."""
    total = NOTHING
    for exchange in exchanges_of(signature, operands):
        type = exchange.type
        held = local_bytes(type.dims, type.bytes // max(1, type.elements), exchange.before)
        total += step_cost(exchange.step, exchange.before, held, combined_by_hand(type.dtype))
    return total


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
        if held and all(p.kind == "sum" and can_split(p.axis, used) for p in held):
            yield frozenset(together)


def _plus(sharding: TensorSharding, partial: tuple[Partial, ...]) -> TensorSharding:
    return sharding.with_axes(sharding.axes, (*sharding.partial, *partial)).closed() if partial else sharding


def _undivided(question: _Question, choice: Choice | None = None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The operands, and the results, of which a dimension is split by more than its factors can be, however it is, or
    can be with an exchange inside alone. Those that a choice reads or computes as they are need no look.
    """
    splits, sources = question.splits, question.sources
    targets: tuple[Source, ...] = tuple([(target,) for target in question.targets])
    if choice is not None and not splits.exchanged:
        sources, targets = _changed(sources, choice.operands), _changed(targets, choice.results)
    rule = splits.rule
    return tuple(_lost(rule.operands, splits, sources)), tuple(_lost(rule.results, splits, targets))


def _changed(sources: Sequence[Source], chosen: Shardings) -> tuple[Source, ...]:
    """Of tensors what they are, if something else was chosen for them."""
    return tuple([() if source[:1] == (one,) else source for source, one in zip(sources, chosen, strict=True)])


def _lost(mappings: Sequence[TensorMapping], splits: Splits, sources: Sequence[Source]) -> Iterator[int]:
    """Operands, or results, of which a dimension is split by more than its factors can be with no exchange inside."""
    local = splits.allowed - splits.exchanged
    for operand, (mapping, source) in enumerate(zip(mappings, sources, strict=True)):
        if not source or not any(source[0].axes):
            continue
        proposed = within_bounds(splits, project(mapping, splits.rule.sizes, source[0].axes))
        parts = [axes_size(axes) if factor in local else 1 for factor, axes in enumerate(proposed)]
        dims = zip(mapping, source[0].axes, strict=True)
        if any(axes_size(axes) > math.prod([parts[factor] for factor in dim]) for dim, axes in dims):
            yield operand
